package cli

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
)

// TestWait waits for a lock to be free, and to be held.
func TestWait(t *testing.T) {
	call(t, "wait", "x").want(t, 0, nothing, nothing)
	call(t, "wait", "--held", "--timeout", "0", "x").complains(t, exitBusy, "no client holds x")
	l := locked(t, "x")
	call(t, "wait", "--held", "x").want(t, 0, nothing, nothing)
	call(t, "wait", "--timeout", "60ms", "x").complains(t, exitBusy, "x is still in use after 60ms")
	done := make(chan result, 1)
	go func() { done <- call(t, "wait", "--timeout", "1m", "x") }()
	check(t, l.Unlock(context.Background()))
	(<-done).want(t, 0, nothing, nothing)
	call(t, "wait").complains(t, exitUsage, "one name")
	call(t, "wait", "").complains(t, exitUsage, "")
	bare(t, "--store=redis://127.0.0.1:1", "wait", "x").complains(t, exitStore, "127.0.0.1:1")
	bare(t, "--store=nosuch://h", "wait", "x").complains(t, exitUsage, "no store is registered")
}

// TestWaitForFile waits for a lock in a file that is not there yet.
func TestWaitForFile(t *testing.T) {
	url := "sqlite:" + filepath.Join(t.TempDir(), "locks.db")
	bare(t, "--store="+url, "wait", "x").want(t, 0, nothing, nothing)
	done := make(chan result, 1)
	go func() { done <- bare(t, "--store="+url, "wait", "--held", "--timeout", "1m", "x") }()
	time.Sleep(10 * time.Millisecond) // so that it most often finds no file at first; it must work either way
	c, err := holdfast.Open(t.Context(), url)
	check(t, err)
	defer c.Close()
	_, err = c.Mutex("x").Lock(t.Context())
	check(t, err)
	(<-done).want(t, 0, nothing, nothing)
}
