package holdfast_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/memstore"
	"github.com/holdfast-go/holdfast/store"
)

// A brief store allows no ttl of more than five seconds.
type brief struct{ store.Store }

func (b brief) Abilities() store.Abilities {
	a := b.Store.Abilities()
	a.MaxTTL = 5 * time.Second
	return a
}

// Nobody has to set a ttl, also where the store allows less than the default.
func TestDefaultTTLFitsTheStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locks := holdfast.New(brief{memstore.New()})
		defer locks.Close()
		l, err := locks.Mutex("x").Lock(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer l.Unlock(t.Context())
		if left := time.Until(l.Until()); left > 5*time.Second || left < 4*time.Second {
			t.Errorf("it is held for %v", left)
		}
	})
}
