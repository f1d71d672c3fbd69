//go:build unix

package filestore

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/testkit"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/storetest"
)

func TestMain(m *testing.M) { testkit.Main(m) }

// TestStore proves the store against the contract.
func TestStore(t *testing.T) {
	storetest.Run(t, func(t testing.TB) storetest.Harness {
		return &harness{dir: t.TempDir()}
	})
}

// A harness is the directory, with a hand on it.
type harness struct{ dir string }

// Open connects a client over a link of its own.
func (h *harness) Open(t testing.TB, prefix string) (store.Store, storetest.Link) {
	opened, err := open(t.Context(), store.Location{Path: h.dir, Prefix: prefix})
	if err != nil {
		t.Fatal(err)
	}
	pipe := storetest.NewPipe()
	s := opened.(*client)
	s.change = func(ctx context.Context, key string, do func(*queue) error) error {
		var response error // a request that was held back writes it when its caller is gone
		if err := pipe.Call(ctx, func() { response = s.changeFile(ctx, key, do) }); err != nil {
			return err
		}
		return response
	}
	return s, pipe
}

// LooseWake implements storetest.LooseWaker: a release wakes every waiter, and each reads the file.
func (h *harness) LooseWake() {}

// Advance implements storetest.Harness.
func (h *harness) Advance(d time.Duration) { time.Sleep(d) }

// Restart has nothing to stop, since no process serves the files. Without data, they are gone. The directory stays:
// other clients, such as the suite's own probe, may be creating files in it.
func (h *harness) Restart(keepData bool) error {
	if keepData {
		return nil
	}
	files, err := os.ReadDir(h.dir)
	for _, file := range files {
		if gone := os.Remove(filepath.Join(h.dir, file.Name())); !errors.Is(gone, os.ErrNotExist) {
			err = errors.Join(err, gone)
		}
	}
	return err
}

// key is where the line of a name is, without a prefix.
func key(name string) string { return "\x00" + name }

func (h *harness) Erase(name string, id store.ID) error {
	return (&client{dir: h.dir}).changeFile(context.Background(), key(name), func(q *queue) error {
		q.Places = slices.DeleteFunc(q.Places, func(p place) bool { return p.ID == id })
		return nil
	})
}

// Residue looks at the line's file after somebody has listed the names, which clears away what the dead have left.
func (h *harness) Residue(name string) (n int, err error) {
	c := &client{dir: h.dir}
	if err := c.changeFile(context.Background(), "", c.list); err != nil {
		return 0, err
	}
	text, err := os.ReadFile(c.path(key(name)))
	if errors.Is(err, os.ErrNotExist) {
		return 0, nil
	}
	return len(text), err
}

func (h *harness) PlantNewer(name string) error {
	newer := map[string]any{"Format": format + 1, "Key": key(name), "Heap": 7}
	return write((&client{dir: h.dir}).path(key(name)), newer)
}
