// Package memharness is the storetest harness of memstore, for use inside a bubble of testing/synctest.
package memharness

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/memstore"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/storetest"
)

// New starts a server. It must be called inside a bubble.
func New(testing.TB) storetest.Harness { return &harness{memstore.NewServer()} }

type harness struct{ server *memstore.Server }

func (h *harness) Open(_ testing.TB, prefix string) (store.Store, storetest.Link) {
	pipe := storetest.NewPipe()
	return h.server.Connect(memstore.WithNetwork(pipe), memstore.WithPrefix(prefix)), pipe
}

func (h *harness) Advance(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func (h *harness) Restart(keepData bool) error {
	h.server.Restart(keepData)
	return nil
}

func (h *harness) Erase(name string, id store.ID) error {
	h.server.Erase(name, id)
	return nil
}

func (h *harness) Residue(name string) (int, error) { return h.server.Residue(name), nil }

func (h *harness) PlantNewer(name string) error {
	h.server.PlantNewer(name)
	return nil
}
