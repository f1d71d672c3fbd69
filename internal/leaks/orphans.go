package leaks

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"testing"
	"time"
)

// Orphans starts a parent, kills it as soon as it prints a line, which must be ready, and checks that the processes
// that it has started end by themselves. They must inherit the file: it is a pipe, whose other end is closed when they
// have ended.
func Orphans(t testing.TB, ready string, parent func(inherited *os.File) *exec.Cmd) {
	t.Helper()
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	alive, inherited, err := os.Pipe()
	check(err)
	defer alive.Close() //nolint:errcheck // it was only read
	cmd := parent(inherited)
	out, err := cmd.StdoutPipe()
	check(err)
	check(cmd.Start())
	check(inherited.Close())
	says := bufio.NewScanner(out)
	if !says.Scan() || says.Text() != ready {
		t.Errorf("the parent says %q", says.Text())
	}
	check(cmd.Process.Kill())
	_ = cmd.Wait() // it was killed
	check(alive.SetReadDeadline(time.Now().Add(2 * patience)))
	if said, err := io.ReadAll(alive); err != nil {
		t.Errorf("a process has outlived its parent: %v; it said %q", err, said)
	}
}
