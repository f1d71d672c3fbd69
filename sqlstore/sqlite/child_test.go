package sqlite

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
)

// A child is this test binary, started again to do one of these jobs in a process of its own.
var childJobs = map[string]func(args []string) error{
	"hold":  childHold,
	"count": childCount,
	"stay":  childStay,
}

const childVariable = "HOLDFAST_TEST_CHILD"

// runChild does a child's job, if this process is one.
func runChild() bool {
	job, ok := childJobs[os.Getenv(childVariable)]
	if !ok {
		return false
	}
	if err := job(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	return true
}

func childCommand(t testing.TB, job string, args ...string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), self, args...)
	cmd.Env = append(os.Environ(), childVariable+"="+job)
	cmd.Stderr = os.Stderr
	return cmd
}

// A holder is a child that takes a lock, says so, and keeps it until its input ends.
type holder struct {
	cmd   *exec.Cmd
	in    io.WriteCloser
	lines *bufio.Scanner
}

func startHolder(t *testing.T, path, name string) *holder {
	t.Helper()
	return startHolderFor(t, path, name, childTTL)
}

func startHolderFor(t *testing.T, path, name string, ttl time.Duration) *holder {
	t.Helper()
	h := &holder{cmd: childCommand(t, "hold", path, name, ttl.String())}
	out, err := h.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if h.in, err = h.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	if err := h.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { h.kill(); _ = h.cmd.Wait() })
	h.lines = bufio.NewScanner(out)
	return h
}

// token waits until the child holds the lock.
func (h *holder) token(t *testing.T) holdfast.Token {
	t.Helper()
	if !h.lines.Scan() {
		t.Fatalf("the child ended: %v", h.lines.Err())
	}
	token, err := holdfast.ParseToken(h.lines.Text())
	if err != nil {
		t.Fatal(err)
	}
	return token
}

func (h *holder) kill() { _ = h.cmd.Process.Kill() }

const childTTL = 2 * time.Second

func childHold(args []string) error {
	ctx := context.Background()
	ttl, err := time.ParseDuration(args[2])
	if err != nil {
		return err
	}
	locks, err := holdfast.Open(ctx, "sqlite:"+args[0], holdfast.TTL(ttl))
	if err != nil {
		return err
	}
	defer locks.Close()
	return locks.Mutex(args[1]).Do(ctx, func(ctx context.Context) error {
		token, _ := holdfast.TokenFrom(ctx)
		fmt.Println(token)
		_, err := io.Copy(io.Discard, os.Stdin)
		return err
	})
}

// childStay does nothing until its input ends.
func childStay([]string) error {
	_, err := io.Copy(io.Discard, os.Stdin)
	return err
}

// childCount adds to a number in a file, so many times, with no protection but the lock.
func childCount(args []string) error {
	ctx := context.Background()
	locks, err := holdfast.Open(ctx, "sqlite:"+args[0], holdfast.TTL(30*time.Second))
	if err != nil {
		return err
	}
	defer locks.Close()
	for range countPerChild {
		err := locks.Mutex("count").Do(ctx, func(context.Context) error { return addOne(args[1]) })
		if err != nil {
			return err
		}
	}
	return nil
}

const countPerChild = 50

func addOne(path string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	var n int
	if _, err := fmt.Sscan(string(text), &n); err != nil {
		return err
	}
	return os.WriteFile(path, fmt.Append(nil, n+1), 0o600)
}
