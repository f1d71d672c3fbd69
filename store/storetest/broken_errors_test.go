package storetest_test

import (
	"context"
	"errors"
	"time"

	"github.com/holdfast-go/holdfast/store"
)

// misreads makes the store return a state when it has no response.
func misreads(state store.State) func(*broken) {
	return eachStore(func(b *bug) {
		b.join = func(ctx context.Context, c store.Claim) (store.Status, error) {
			status, err := b.Store.Join(ctx, c)
			if _, fault := errors.AsType[*store.Fault](err); fault {
				return store.Status{State: state, Ticket: 1}, nil
			}
			return status, err
		}
		b.keep = func(ctx context.Context, cs []store.Claim) ([]store.Status, error) {
			statuses, err := b.Store.Keep(ctx, cs)
			if _, fault := errors.AsType[*store.Fault](err); !fault {
				return statuses, err
			}
			for _, c := range cs {
				statuses = append(statuses, store.Status{State: state, Ticket: c.Ticket})
			}
			return statuses, nil
		}
	})
}

// blames changes the store's faults.
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
	{"no response means locked", 11, "honest errors/healed", nil, misreads(store.Waiting)},
	{"no response means lost", 11, "honest errors/cut off", nil, misreads(store.Gone)},
	{"an error that names no store", 11, "honest errors/cut off", nil, blames(func(f *store.Fault) error {
		return &store.Fault{Store: "store", Err: f.Err}
	})},
	{"a bare error", 11, "honest errors/cut off meanwhile", nil, blames(func(f *store.Fault) error { return f.Err })},
	{"a broken link is for ever", 11, "honest errors/cut off", nil, blames(func(f *store.Fault) error {
		return &store.Fault{Store: f.Store, Err: f.Err, Final: true}
	})},
	{"a context is ignored", 11, "honest errors/silence, cancelled", []int{0, 4, 8}, eachStore(func(b *bug) {
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
	{"a newer format is not detected", 12, "format/a newer queue", nil, func(h *broken) {
		h.plant = func(string) error { return nil }
	}},
	{"a newer queue is deleted", 12, "format/a newer queue", nil, func(h *broken) {
		var cleared notes[string, bool]
		h.bug = func(b *bug) {
			b.join = func(ctx context.Context, c store.Claim) (store.Status, error) {
				status, err := b.Store.Join(ctx, c)
				cleared.set(c.Name, errors.Is(err, store.ErrFormat))
				return status, err
			}
		}
		h.residue = func(name string) (int, error) {
			if cleared.get(name) {
				return 0, nil
			}
			return h.Harness.Residue(name)
		}
	}},
	{"a newer queue fails the others", 12, "format/a newer queue among others", nil, eachStore(func(b *bug) {
		b.keep = func(ctx context.Context, cs []store.Claim) ([]store.Status, error) {
			statuses, err := b.Store.Keep(ctx, cs)
			for _, s := range statuses {
				if s.Err != nil {
					return nil, s.Err
				}
			}
			return statuses, err
		}
	})},
}
