//go:build unix

package cli

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
)

// script is a command that appends its token to a file. The second time it exits with 7; the first time it goes on for
// long.
func script(file string) []string {
	return []string{"--", "sh", "-c", `echo "$HOLDFAST_NAME $HOLDFAST_TOKEN" >> "$0"
		if [ "$(wc -l < "$0")" -ge 2 ]; then exit 7; fi; exec sleep 600`, file}
}

// begin runs a command line in the background.
func begin(t *testing.T, args ...string) <-chan result {
	t.Helper()
	done := make(chan result, 1)
	go func() { done <- callOnFiles(t, args...) }()
	return done
}

// ended waits for what began.
func ended(t *testing.T, done <-chan result) result {
	t.Helper()
	select {
	case r := <-done:
		return r
	case <-time.After(time.Minute):
		t.Fatal("it does not end")
		return result{}
	}
}

// awaitLines waits until a file has so many lines, and returns them.
func awaitLines(t *testing.T, file string, n int) []string {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(5 * time.Millisecond) {
		text, _ := os.ReadFile(file)
		if lines := strings.Split(strings.TrimSuffix(string(text), "\n"), "\n"); len(text) > 0 && len(lines) >= n {
			return lines
		}
		if time.Now().After(deadline) {
			t.Fatalf("no %d lines in %q", n, text)
		}
	}
}

// breakLeader has an operator break whoever leads x.
func breakLeader(t *testing.T, c *holdfast.Client) {
	t.Helper()
	leader, err := c.Election("x").Leader(t.Context())
	check(t, err)
	check(t, c.Break(t.Context(), "x", leader.Token))
}

// TestElect: a leader whose leadership is broken ends its command, leads again with a greater token, and exits as its
// command does in the end.
func TestElect(t *testing.T) {
	file := filepath.Join(t.TempDir(), "led")
	done := begin(t, append([]string{"elect", "--label", "here:80", "--kill-after", "1s", "x"}, script(file)...)...)
	awaitLines(t, file, 1)
	c := client(t)
	if leader, err := c.Election("x").Leader(t.Context()); err != nil || leader.Info != "here:80" {
		t.Errorf("%+v, %v", leader, err)
	}
	breakLeader(t, c)
	ended(t, done).want(t, 7, nothing, `(?s)the command must end.*campaigning again for x`)
	lines := awaitLines(t, file, 2)
	first, err := holdfast.ParseToken(strings.TrimPrefix(lines[0], "x "))
	check(t, err)
	second, err := holdfast.ParseToken(strings.TrimPrefix(lines[1], "x "))
	check(t, err)
	if second <= first {
		t.Errorf("token %v after %v", second, first)
	}
	call(t, "show", "x").want(t, exitNotHeld, nothing, "")
}

// TestElectOnce: with --once a loss ends it.
func TestElectOnce(t *testing.T) {
	file := filepath.Join(t.TempDir(), "led")
	done := begin(t, append([]string{"elect", "--once", "--kill-after", "1s", "x"}, script(file)...)...)
	awaitLines(t, file, 1)
	breakLeader(t, client(t))
	ended(t, done).want(t, exitLost, nothing, "the command must end")
}

// TestElectExitsAsItsCommand also with the code that a loss has, and not with that of a lock that is taken.
func TestElectExitsAsItsCommand(t *testing.T) {
	callOnFiles(t, "elect", "x", "--", "sh", "-c", "exit 79").want(t, 79, nothing, nothing)
	callOnFiles(t, "elect", "x", "--", "true").want(t, 0, nothing, nothing)
	callOnFiles(t, "elect", "x", "--", "no-such-command").complains(t, exitNoFile, "not found")
	locked(t, "x")
	callOnFiles(t, "elect", "--wait", "50ms", "x", "--", "true").want(t, exitBusy, nothing, "^holdfast: ")
}

// TestElectTakesTurns: of two that campaign the second leads when the first has ended.
func TestElectTakesTurns(t *testing.T) {
	l := locked(t, "x")
	done := begin(t, "elect", "-v", "x", "--", "true")
	c := client(t)
	for {
		if q, err := c.Inspect(t.Context(), "x"); err == nil && len(q.Waiters()) == 1 {
			break
		}
		time.Sleep(time.Millisecond)
	}
	check(t, l.Unlock(context.Background()))
	ended(t, done).want(t, 0, nothing, `(?s)waiting for x: .* leads since.*acquired x .*token`)
}
