package storetest_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/memstore"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/storetest"
)

// A slow harness connects clients whose messages a test can delay.
type slow struct {
	storetest.Harness
	server *memstore.Server
	probe  *memstore.Store
}

func (h *slow) Open(testing.TB, string) (store.Store, storetest.Link) {
	h.probe = h.server.Connect()
	return h.probe, nil
}

// TestProbe: a server that responds late, or not until the end, is noticed by its observers.
func TestProbe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &slow{server: memstore.NewServer()}
		observe := storetest.StartProbe(t, h)
		expect := func(what string, end func() time.Duration, least, most time.Duration) {
			t.Helper()
			if got := end(); got < least || got > most {
				t.Errorf("%s: stalled for %v, want %v to %v", what, got, least, most)
			}
		}
		calm, whole := observe(), observe()
		time.Sleep(time.Second)
		expect("at rest", calm, 0, 0)
		late, cut := observe(), observe()
		h.probe.SetDelay(300 * time.Millisecond)
		time.Sleep(200 * time.Millisecond)
		expect("before it has responded", cut, 100*time.Millisecond, 200*time.Millisecond)
		time.Sleep(800 * time.Millisecond)
		h.probe.SetDelay(0)
		expect("late", late, 300*time.Millisecond, 300*time.Millisecond)
		time.Sleep(time.Second)
		after := observe()
		time.Sleep(time.Second)
		expect("at rest again", after, 0, 0)
		expect("all the time", whole, 300*time.Millisecond, 300*time.Millisecond)
	})
}
