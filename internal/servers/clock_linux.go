package servers

import (
	_ "embed" // for the shim
	"os"
	"os/exec"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
	"unsafe"
)

//go:embed shim/clock.c
var shimSource []byte

// A Clock is the wall clock that servers see, as a test sets it. It goes at the pace of the real one. Only the wall
// clock moves: what a server counts on its monotonic clock goes on as before. Etcd does not see it: a Go program asks
// the kernel, and not the C library.
type Clock struct {
	shim   string
	file   string
	offset *atomic.Int64 // in memory that the servers read
}

// NewClock makes a clock that shows the real time. It compiles a small library, which [Clock.Env] has the server
// load. The test is skipped, or fails, if there is no C compiler: see [Need].
func NewClock(t testing.TB) *Clock {
	t.Helper()
	cc := Need(t, "cc")
	dir := sharedTempDir(t)
	c := &Clock{shim: filepath.Join(dir, "clock.so"), file: filepath.Join(dir, "offset")}
	source := filepath.Join(dir, "clock.c")
	if err := os.WriteFile(source, shimSource, 0o600); err != nil {
		t.Fatal(err)
	}
	build := exec.Command(cc, "-shared", "-fPIC", "-O2", "-Wall", "-o", c.shim, source)
	if said, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", build, err, said)
	}
	var zero atomic.Int64
	if err := os.WriteFile(c.file, make([]byte, unsafe.Sizeof(zero)), 0o644); err != nil {
		t.Fatal(err)
	}
	c.mapOffset(t)
	return c
}

// mapOffset maps the file, so that an offset is set in one step and never seen by halves.
func (c *Clock) mapOffset(t testing.TB) {
	t.Helper()
	f, err := os.OpenFile(c.file, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close() //nolint:errcheck // the mapping stays
	page, err := syscall.Mmap(int(f.Fd()), 0, int(unsafe.Sizeof(*c.offset)),
		syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := syscall.Munmap(page); err != nil {
			t.Error(err)
		}
	})
	c.offset = (*atomic.Int64)(unsafe.Pointer(unsafe.SliceData(page)))
}

// Env is what a server must have in its environment to see this clock.
func (c *Clock) Env() []string {
	return []string{"LD_PRELOAD=" + c.shim, "HOLDFAST_CLOCK_FILE=" + c.file}
}

// Step moves the clock, forward or back. Servers see it the next time they look.
func (c *Clock) Step(d time.Duration) { c.offset.Add(int64(d)) }

// Offset is how far the clock is ahead of the real one.
func (c *Clock) Offset() time.Duration { return time.Duration(c.offset.Load()) }
