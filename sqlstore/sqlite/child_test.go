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

// childJobs are what this test binary can be started again for, in a process of its own.
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
	check(t, err)
	cmd := exec.CommandContext(t.Context(), self, args...)
	cmd.Env = append(os.Environ(), childVariable+"="+job)
	cmd.Stderr = os.Stderr
	return cmd
}

// A child is a process that does one of childJobs.
type child struct {
	*exec.Cmd
	in    io.WriteCloser
	lines *bufio.Scanner // what it prints
}

func startChild(t testing.TB, job string, args ...string) *child {
	t.Helper()
	c := &child{Cmd: childCommand(t, job, args...)}
	out, err := c.StdoutPipe()
	check(t, err)
	c.in, err = c.StdinPipe()
	check(t, err)
	check(t, c.Start())
	t.Cleanup(c.bury)
	c.lines = bufio.NewScanner(out)
	return c
}

// startHolder starts a child that takes a lock, says so, and keeps it until its input ends.
func startHolder(t testing.TB, path, name string, ttl time.Duration) *child {
	t.Helper()
	return startChild(t, "hold", path, name, ttl.String())
}

// token waits until a holder has its lock.
func (c *child) token(t testing.TB) holdfast.Token {
	t.Helper()
	if !c.lines.Scan() {
		t.Fatalf("the child ended: %v", c.lines.Err())
	}
	token, err := holdfast.ParseToken(c.lines.Text())
	check(t, err)
	return token
}

// bury kills a child and waits until it is gone.
func (c *child) bury() {
	_ = c.Process.Kill()
	_ = c.Wait()
}

func childHold(args []string) error {
	ctx := context.Background()
	ttl, err := time.ParseDuration(args[2])
	if err != nil {
		return err
	}
	locks, err := holdfast.Open(ctx, "sqlite:"+args[0], holdfast.WithTTL(ttl))
	if err != nil {
		return err
	}
	defer locks.Close()
	return locks.Mutex(args[1]).Do(ctx, func(ctx context.Context) error {
		token, _ := holdfast.TokenFrom(ctx)
		fmt.Println(token)
		return childStay(nil)
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
	locks, err := holdfast.Open(ctx, "sqlite:"+args[0], holdfast.WithTTL(30*time.Second))
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
