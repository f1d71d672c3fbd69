package contend

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/store"
)

// TestRelay passes one lease of a SQLite file back and forth between two processes: 2,000 times, and in a soak 10,000
// times.
func TestRelay(t *testing.T) {
	passes, faults := 2000, 4
	if os.Getenv("HOLDFAST_SOAK") != "" {
		passes, faults = 10_000, 8
	}
	Relay(t, Race{URL: sqliteURL(t) + "?ttl=1s", TTL: time.Second, Passes: passes, Faults: faults})
}

// TestRelayCatches: a store that lets two processes attach one lease is caught.
func TestRelayCatches(t *testing.T) {
	url := "loose" + strings.TrimPrefix(sqliteURL(t), "sqlite")
	g := &relay{
		Race:   Race{URL: url, TTL: time.Second, Passes: 1000, Faults: 1},
		dir:    t.TempDir(),
		passed: map[holdfast.Token]int{},
	}
	err := errors.Join(g.run(within(t, 2*patience)), g.close())
	if err == nil || !strings.Contains(err.Error(), "both runners attached one lease") {
		t.Errorf("a store that attaches a lease twice: %v", err)
	}
}

func init() {
	store.Register("loose", func(ctx context.Context, at store.Location) (store.Store, error) {
		at.Scheme = "sqlite"
		s, err := store.Open(ctx, at)
		return &loose{Store: s}, err
	})
}

// A loose store attaches a detached claim without renaming it, so that others can attach it too.
type loose struct {
	store.Store
	attached store.ID // as the store has it
}

func (l *loose) Detach(ctx context.Context, c store.Claim, as store.ID, d time.Duration) (store.Status, error) {
	if l.attached != (store.ID{}) {
		c.ID = l.attached
	}
	status, err := l.Store.(store.Detacher).Detach(ctx, c, as, d) //nolint:forcetypeassert // SQLite's is one
	status.State = store.Held
	return status, err
}

func (l *loose) Attach(ctx context.Context, c store.Claim, from store.ID) (store.Status, error) {
	l.attached = from
	q, err := l.Queue(ctx, c.Name)
	if err != nil || !hasID(q, from) {
		return store.Status{State: store.Gone}, err
	}
	return store.Status{State: store.Held, Ticket: c.Ticket, Until: time.Now().Add(c.TTL)}, nil
}

func hasID(q store.Queue, id store.ID) bool {
	return slices.ContainsFunc(q.Entries, func(e store.Entry) bool { return e.ID == id })
}
