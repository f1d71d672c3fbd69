//go:build unix

package filestore

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/store"
)

// TestFaults: the file is not what it should be. The error is a fault that names it, and a claim that was held is there
// again when the file is.
func TestFaults(t *testing.T) {
	h := &harness{t.TempDir()}
	s, _ := h.Open(t, "")
	c := store.Claim{
		ID: store.ID{1}, Name: "x", TTL: time.Minute, Owner: &store.Owner{},
		Demand: store.Demand{Kind: store.Lock, Units: 1, Limit: store.MaxReaders},
	}
	if _, err := s.Join(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	path := s.(*client).path(key("x"))
	for name, spoil := range map[string]func() error{
		"no file": func() error { return os.Mkdir(path, 0o700) },
		"no JSON": func() error { return os.WriteFile(path, []byte("{"), 0o600) },
	} {
		t.Run(name, func(t *testing.T) {
			if err := errors.Join(os.Rename(path, path+".good"), spoil()); err != nil {
				t.Fatal(err)
			}
			_, err := s.Keep(t.Context(), []store.Claim{c})
			if _, fault := errors.AsType[*store.Fault](err); !fault || !strings.Contains(err.Error(), h.dir) {
				t.Errorf("Keep: %v", err)
			}
			if err := errors.Join(os.RemoveAll(path), os.Rename(path+".good", path)); err != nil {
				t.Fatal(err)
			}
			if standings, err := s.Keep(t.Context(), []store.Claim{c}); err != nil || standings[0].State != store.Held {
				t.Errorf("Keep when the file is back: %v, %v", standings, err)
			}
		})
	}
}

// TestStoppedProcess: another process has the lock and does not go on. Calls give up when their contexts end.
func TestStoppedProcess(t *testing.T) {
	h := &harness{t.TempDir()}
	s, _ := h.Open(t, "")
	lock, err := os.Open(filepath.Join(h.dir, "lock"))
	if err == nil {
		defer lock.Close()
		err = syscall.Flock(int(lock.Fd()), syscall.LOCK_EX)
	}
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := s.Queue(ctx, "x"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Line: %v", err)
	}
}

// TestURLs: what is no path of a file is refused.
func TestURLs(t *testing.T) {
	for _, url := range []string{"file:", "file://host/locks", "file:/locks?mode=queue"} {
		at, err := store.ParseLocation(url)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := store.Open(t.Context(), at); !store.Rejected(err) {
			t.Errorf("%s: %v", url, err)
		}
	}
}
