package storetest_test

import (
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/leaks"
	"github.com/holdfast-go/holdfast/internal/memharness"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/storetest"
)

func TestMain(m *testing.M) { leaks.Main(m) }

// TestHonestStorePasses shows that a correct store passes the suite.
func TestHonestStorePasses(t *testing.T) {
	storetest.RunFake(t, memharness.New)
}

// lateHarness connects each client only after a ttl and a half has passed, as a busy server may.
type lateHarness struct{ storetest.Harness }

func (h lateHarness) Open(t testing.TB, prefix string) (store.Store, storetest.Link) {
	time.Sleep(15 * time.Second)
	return h.Harness.Open(t, prefix)
}

// TestSlowConnections shows that no case blames a store because its clients were connected late.
func TestSlowConnections(t *testing.T) {
	storetest.RunFake(t, func(t testing.TB) storetest.Harness { return lateHarness{memharness.New(t)} })
}
