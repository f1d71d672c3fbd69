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

// A Clock is a wall clock for servers that a test can set. It runs at the speed of the real clock. Only the wall clock
// is changed, not the monotonic clock of a server. Etcd does not use it: a Go program reads the clock of the kernel,
// and not through the C library.
type Clock struct {
	shim   string
	file   string
	offset *atomic.Int64 // in memory that the servers read
}

// NewClock returns a clock that shows the real time. It compiles a small library, which [Clock.Env] makes the server
// load. The test is skipped, or fails, if there is no C compiler: see [Need].
func NewClock(t testing.TB) *Clock {
	t.Helper()
	cc := Need(t, "cc")
	dir := sharedTempDir(t)
	c := &Clock{shim: filepath.Join(dir, "clock.so"), file: filepath.Join(dir, "offset")}
	source := filepath.Join(dir, "clock.c")
	must(t, os.WriteFile(source, shimSource, 0o600))
	build := exec.Command(cc, "-shared", "-fPIC", "-O2", "-Wall", "-o", c.shim, source)
	if said, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", build, err, said)
	}
	// The file is mapped, so that an offset is set atomically.
	f, err := os.OpenFile(c.file, os.O_RDWR|os.O_CREATE, 0o644)
	must(t, err)
	defer f.Close() //nolint:errcheck // the mapping stays
	size := int(unsafe.Sizeof(*c.offset))
	must(t, f.Truncate(int64(size)))
	page, err := syscall.Mmap(int(f.Fd()), 0, size, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED)
	must(t, err)
	atEnd(t, func() error { return syscall.Munmap(page) })
	c.offset = (*atomic.Int64)(unsafe.Pointer(unsafe.SliceData(page)))
	return c
}

// Env returns the environment variable with which a server uses this clock.
func (c *Clock) Env() []string {
	return []string{"LD_PRELOAD=" + c.shim, "HOLDFAST_CLOCK_FILE=" + c.file}
}

// Step moves the clock, forward or back. Servers get the new time at their next read.
func (c *Clock) Step(d time.Duration) { c.offset.Add(int64(d)) }

// Offset returns how far the clock is ahead of the real one.
func (c *Clock) Offset() time.Duration { return time.Duration(c.offset.Load()) }
