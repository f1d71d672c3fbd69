//go:build linux

package main

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// Plain mode and node-redlock on one key. The workers of the other side are testdata/node-redlock/worker.mjs, which
// says what it did as a worker of ours does. Elsewhere than on Linux the two would have no clock in common.

// npmPatience is how long npm may take to fetch a handful of packages.
const npmPatience = 2 * time.Minute

// needProgram finds a program of another world than Go's. A test that needs it is left out where it is missing, unless
// somebody has asked for interop: it is no part of Holdfast, nor of any store.
func needProgram(t *testing.T, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		leaveOut(t, "%s is not installed", name)
	}
	return path
}

func leaveOut(t *testing.T, why string, args ...any) {
	t.Helper()
	if os.Getenv("HOLDFAST_INTEROP") != "" {
		t.Fatalf(why, args...)
	}
	t.Skipf("left out: "+why, args...)
}

// nodeRedlock installs what its lock file pins into a temp folder, and gives the sides of both versions.
func nodeRedlock(t *testing.T) []side {
	t.Helper()
	node, npm := needProgram(t, "node"), needProgram(t, "npm")
	dir := t.TempDir()
	must(t, os.CopyFS(dir, os.DirFS(filepath.Join("testdata", "node-redlock"))))
	ctx, cancel := context.WithTimeout(t.Context(), npmPatience)
	defer cancel()
	cmd := exec.CommandContext(ctx, npm, "ci", "--ignore-scripts", "--prefer-offline", "--no-audit", "--no-fund",
		"--fetch-retries=1", "--fetch-retry-mintimeout=1000") // where there is no network, that is soon clear
	cmd.Dir = dir
	if said, err := cmd.CombinedOutput(); err != nil {
		leaveOut(t, "npm cannot fetch node-redlock here: %v; it said:\n%s", err, said)
	}
	worker := filepath.Join(dir, "worker.mjs")
	hire := func(ctx context.Context, a assignment) (*hand, error) {
		return hireProgram(ctx, exec.Command(node, worker), inJSON, a)
	}
	return []side{{"node-redlock-4", hire}, {"node-redlock-5", hire}}
}

func TestPlainModeAmongNodeRedlock(t *testing.T) {
	for _, peer := range nodeRedlock(t) {
		t.Run(peer.name, func(t *testing.T) {
			t.Parallel()
			testPlainModeBeside(t, peer)
			t.Run("control", func(t *testing.T) { testLineBeside(t, peer) })
		})
	}
}

// The times of both sides can be compared.
func TestNodeHasTheSameClock(t *testing.T) {
	node, c := needProgram(t, "node"), newClock()
	before := c.surely()
	said, err := exec.CommandContext(t.Context(), node, "-e", "console.log(String(process.hrtime.bigint()))").Output()
	after := c.now()
	must(t, err)
	if at, err := strconv.ParseInt(strings.TrimSpace(string(said)), 10, 64); err != nil || at < before || at > after {
		t.Errorf("between %d and %d its clock said %d, %v", before, after, at, err)
	}
}
