package storetest_test

import (
	"context"
	"errors"
	"time"

	"github.com/holdfast-go/holdfast/store"
)

// misreads makes the store answer with a state when it has no answer.
func misreads(state store.State) func(*broken) {
	return eachStore(func(b *bug) {
		b.join = func(ctx context.Context, c store.Claim) (store.Status, error) {
			standing, err := b.Store.Join(ctx, c)
			if _, fault := errors.AsType[*store.Fault](err); fault {
				return store.Status{State: state, Ticket: 1}, nil
			}
			return standing, err
		}
		b.keep = func(ctx context.Context, cs []store.Claim) ([]store.Status, error) {
			standings, err := b.Store.Keep(ctx, cs)
			if _, fault := errors.AsType[*store.Fault](err); !fault {
				return standings, err
			}
			for _, c := range cs {
				standings = append(standings, store.Status{State: state, Ticket: c.Ticket})
			}
			return standings, nil
		}
	})
}

// blames alters the store's faults.
func blames(blame func(*store.Fault) error) func(*broken) {
	return eachStore(func(b *bug) {
		b.fails = func(err error) error {
			if f, fault := errors.AsType[*store.Fault](err); fault {
				return blame(f)
			}
			return err
		}
	})
}

var brokenErrors = []mutant{
	{"no answer means locked", 11, "honest errors/healed", nil, misreads(store.Waiting)},
	{"no answer means lost", 11, "honest errors/cut off", nil, misreads(store.Gone)},
	{"an error that blames nobody", 11, "honest errors/cut off", nil, blames(func(f *store.Fault) error {
		return &store.Fault{Store: "store", Err: f.Err}
	})},
	{"a bare error", 11, "honest errors/cut off meanwhile", nil, blames(func(f *store.Fault) error { return f.Err })},
	{"a broken link is for ever", 11, "honest errors/cut off", nil, blames(func(f *store.Fault) error {
		return &store.Fault{Store: f.Store, Err: f.Err, Final: true}
	})},
	{"a context is not heard", 11, "honest errors/silence, cancelled", []int{0, 4, 8}, eachStore(func(b *bug) {
		b.context = func(ctx context.Context, _ time.Duration) context.Context { return context.WithoutCancel(ctx) }
	})},
	{"waits for ever", 11, "honest errors/silence, without a deadline", nil, eachStore(func(b *bug) {
		b.context = func(ctx context.Context, ttl time.Duration) context.Context {
			if _, bounded := ctx.Deadline(); bounded {
				return ctx
			}
			patient, cancel := context.WithTimeout(ctx, 1000*ttl)
			context.AfterFunc(patient, cancel)
			return patient
		}
	})},
	{"a closed store is a fault", 11, "honest errors/closed", nil, eachStore(func(b *bug) {
		b.fails = func(err error) error {
			if errors.Is(err, store.ErrClosed) {
				return &store.Fault{Store: "memory", Err: errors.New("closed")}
			}
			return err
		}
	})},
}

var brokenFormat = []mutant{
	{"a newer format is not seen", 12, "format/a newer line", nil, func(h *broken) {
		h.plant = func(string) error { return nil }
	}},
	{"a newer line is cleared away", 12, "format/a newer line", nil, func(h *broken) {
		var cleared notes[string, bool]
		h.bug = func(b *bug) {
			b.join = func(ctx context.Context, c store.Claim) (store.Status, error) {
				standing, err := b.Store.Join(ctx, c)
				cleared.set(c.Name, errors.Is(err, store.ErrFormat))
				return standing, err
			}
		}
		h.residue = func(name string) (int, error) {
			if cleared.get(name) {
				return 0, nil
			}
			return h.Harness.Residue(name)
		}
	}},
	{"a newer line costs the others", 12, "format/a newer line among others", nil, eachStore(func(b *bug) {
		b.keep = func(ctx context.Context, cs []store.Claim) ([]store.Status, error) {
			standings, err := b.Store.Keep(ctx, cs)
			for _, s := range standings {
				if s.Err != nil {
					return nil, s.Err
				}
			}
			return standings, err
		}
	})},
}
