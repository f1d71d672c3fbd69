package holdfast_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/memstore"
	"github.com/holdfast-go/holdfast/store"
)

// An errorScene brings about errors of one kind, on locks whose names begin with name, and shows each of them.
type errorScene func(r *rig, name string, see func(error))

// TestErrorsSayOneThing brings about errors of every kind that the package has. Whatever the name, the text has the
// prefix once, the store's name at most once, no clause twice, no control characters and a bounded length.
func TestErrorsSayOneThing(t *testing.T) {
	for _, scenes := range []map[string]errorScene{contentionScenes, misuseScenes, lossScenes, faultScenes} {
		for what, show := range scenes {
			for kind, name := range map[string]string{
				"short":   "x",
				"long":    strings.Repeat("nightly/", 62),
				"hostile": "a\n\x1b[31m\u202eb",
			} {
				scene(t, what+"/"+kind, func(t *testing.T, r *rig) {
					seen := 0
					show(r, name, func(err error) {
						t.Helper()
						seen++
						checkText(t, err)
					})
					if seen == 0 {
						t.Error("no error was seen")
					}
				})
			}
		}
	}
}

// checkText checks how an error reads.
func checkText(t *testing.T, err error) {
	t.Helper()
	if err == nil {
		t.Error("no error")
		return
	}
	text := err.Error()
	bad := func(what string) {
		t.Helper()
		t.Errorf("%s: %q", what, text)
	}
	if strings.Count(text, "holdfast:") != 1 {
		bad("not one prefix")
	}
	if strings.Count(text, "memory") > 1 {
		bad("the store is named twice")
	}
	if strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }) {
		bad("not printable")
	}
	if len(text) > 1000 {
		bad("too long")
	}
	var clauses []string
	for clause := range strings.SplitSeq(strings.ReplaceAll(text, "; ", ": "), ": ") {
		if slices.Contains(clauses, clause) {
			bad(fmt.Sprintf("%q twice", clause))
		}
		clauses = append(clauses, clause)
	}
}

var contentionScenes = map[string]errorScene{
	"try": func(r *rig, name string, see func(error)) {
		r.lock(r.client(holdfast.WithLabel("label " + name)).Mutex(name).Lock)
		c := r.client()
		see(errorOf(c.Mutex(name).TryLock(r.Context())))
		see(errorOf(c.RWMutex(name).TryRLock(r.Context())))
	},
	"deadline": func(r *rig, name string, see func(error)) {
		r.lock(r.client(holdfast.WithOwner("owner " + name)).Mutex(name).Lock)
		c := r.client()
		see(errorOf(c.Mutex(name).Lock(r.within(time.Second))))
		see(errorOf(c.Mutex(name, holdfast.WithWait(time.Second)).Lock(r.Context())))
		see(errorOf(holdfast.LockAll(r.within(time.Second), c.Mutex(name))))
		see(errorOf(holdfast.LockAll(r.within(time.Second), c.Mutex(name), c.Mutex("b"))))
		see(c.Mutex(name).Do(r.within(time.Second), func(context.Context) error { return nil }))
	},
	"cancelled with a cause": func(r *rig, name string, see func(error)) {
		r.lock(r.client().Mutex(name).Lock)
		ctx, cancel := context.WithCancelCause(r.Context())
		cancel(errors.Join(errors.New("going home"), errors.New("it is late")))
		see(errorOf(r.client().Mutex(name).Lock(ctx)))
	},
	"under a lease that is lost": func(r *rig, name string, see func(error)) {
		r.lock(r.client().Mutex(name).Lock)
		c := r.client()
		outer := r.lock(c.Mutex("outer").Lock)
		waits := r.begin(under(outer, c.Mutex(name).Lock))
		r.breakLock("outer")
		r.pass(ttl)
		see(waits.err)
	},
	"deadlock": func(r *rig, name string, see func(error)) {
		a, b := r.client(holdfast.WithLabel("label "+name)), r.client()
		one, two := r.lock(a.Mutex(name).Lock), r.lock(b.Mutex("y").Lock)
		calls := []*call{r.begin(under(one, a.Mutex("y").Lock)), r.begin(under(two, b.Mutex(name).Lock))}
		r.pass(3 * time.Second)
		for _, c := range calls {
			if c.done() {
				see(c.err)
			}
		}
	},
	"no leader": func(r *rig, name string, see func(error)) {
		c := r.client()
		see(errorOf(c.Election(name).Leader(r.Context())))
		see(c.Break(r.Context(), name, 1<<8))
	},
}

var misuseScenes = map[string]errorScene{
	"unlocked": func(r *rig, name string, see func(error)) {
		l := r.lock(r.client().Mutex(name).Lock)
		ctx := l.Context()
		r.unlock(l)
		see(l.Err())
		see(l.Unlock(r.Context()))
		see(context.Cause(ctx))
		see(errorOf(l.Downgrade(r.Context())))
		_, _, err := l.Pin()
		see(err)
	},
	"mismatch": func(r *rig, name string, see func(error)) {
		c := r.client()
		r.lock(r.client().Mutex(name).Lock)
		see(errorOf(c.Semaphore(name, 3).Acquire(r.Context(), 1)))
		see(errorOf(holdfast.LockAll(r.Context(), c.Semaphore(name, 3).Units(1))))
		see(errorOf(holdfast.LockAll(r.Context(), c.Mutex("y"), c.Mutex(name), c.Semaphore(name, 3).Units(1))))
	},
	"re-entered": func(r *rig, name string, see func(error)) {
		m := r.client().RWMutex(name)
		l := r.lock(m.RLock)
		see(errorOf(m.RLock(l.Context())))
		see(errorOf(m.Lock(l.Context())))
		see(errorOf(r.client().RWMutex(name, holdfast.WithReentrance()).Lock(l.Context())))
		see(errorOf(l.Downgrade(r.Context())))
	},
	"wrong": func(r *rig, name string, see func(error)) {
		var none context.Context
		c := r.client()
		fn := func(context.Context) error { return nil }
		for _, o := range []holdfast.Option{
			holdfast.WithTTL(0), holdfast.WithTTL(memstore.MaxTTL + 1), holdfast.WithWait(-1),
			holdfast.WithGrace(memstore.MaxTTL + 1),
			holdfast.WithOwner(name + "\x00"), holdfast.WithLabel(strings.Repeat(name, 513)),
			holdfast.WithHandOver(-1, 0), nil,
		} {
			see(errorOf(c.Mutex(name, o).Lock(r.Context())))
			see(errorOf(holdfast.LockAll(r.Context(), c.Mutex(name, o))))
			see(errorOf(holdfast.LockAll(r.Context(), c.Mutex("y"), c.Mutex(name, o))))
		}
		for _, wrong := range []string{"", strings.Repeat(name, 513), name + "\xff", name + "\x00"} {
			see(errorOf(c.Mutex(wrong).Lock(r.Context())))
			see(errorOf(holdfast.LockAll(r.Context(), c.Mutex(wrong))))
			see(errorOf(holdfast.LockAll(r.Context(), c.Mutex("y"), c.Mutex(wrong))))
			see(errorOf(c.Inspect(r.Context(), wrong)))
			see(c.Break(r.Context(), wrong, 1<<8))
		}
		see(errorOf(c.Mutex(name).Lock(none)))
		see(c.Mutex(name).Do(r.Context(), nil))
		see(c.Election(name).Run(r.Context(), nil))
		see(errorOf(c.Semaphore(name, 3).Acquire(r.Context(), 4)))
		see(errorOf(c.Semaphore(name, -3).Acquire(r.Context(), 1)))
		see(errorOf(holdfast.LockAll(r.Context())))
		see(errorOf(holdfast.LockAll(r.Context(), c.Mutex("y"), nil)))
		see(errorOf(holdfast.LockAll(r.Context(), c.Semaphore(name, 3).Units(2), c.Semaphore(name, 3).Units(2))))
		see(holdfast.New(nil).Mutex(name).Do(r.Context(), fn))
		see(errorOf(holdfast.ParseToken(name)))
	},
	"closed": func(r *rig, name string, see func(error)) {
		c := r.client()
		l := r.lock(c.Mutex(name).Lock)
		m := r.lockAll(c.Mutex("a"), c.Mutex("b"))
		waits := r.begin(c.Mutex(name).Lock)
		err := c.Mutex("do").Do(r.Context(), func(ctx context.Context) error {
			c.Close()
			return context.Cause(ctx)
		})
		see(err)
		<-waits.returned
		see(waits.err)
		see(l.Err())
		see(l.Unlock(r.Context()))
		see(m.Err())
		see(m.Unlock(r.Context()))
		see(errorOf(c.Mutex(name).Lock(r.Context())))
		see(errorOf(c.Inspect(r.Context(), name)))
		for _, err := range c.Names(r.Context(), "") {
			see(err)
		}
	},
	"open": func(r *rig, name string, see func(error)) {
		for _, url := range []string{"", "nonsense", "gopher://x", "memory:?ttl=1ns", "memory:?prefix=%00"} {
			see(errorOf(holdfast.Open(r.Context(), url)))
		}
		see(errorOf(holdfast.Open(r.Context(), "memory:", holdfast.WithOwner(name+"\x00"))))
	},
}

var lossScenes = map[string]errorScene{
	"Do": func(r *rig, name string, see func(error)) {
		for _, returns := range []func(context.Context) error{
			context.Cause,
			context.Context.Err,
			func(context.Context) error { return nil },
			func(context.Context) error { return errors.New("no disk") },
			func(ctx context.Context) error { return fmt.Errorf("copy: %w", context.Cause(ctx)) },
			func(ctx context.Context) error { return fmt.Errorf("copy: %w", ctx.Err()) },
			func(ctx context.Context) error {
				return errorOf(r.client().Mutex(name).TryLock(context.WithoutCancel(ctx)))
			},
			func(context.Context) error {
				return &holdfast.Error{Op: "fence", Name: name, Store: "Redis", Err: holdfast.ErrStale}
			},
		} {
			c := r.client()
			see(c.Mutex(name).Do(r.Context(), func(ctx context.Context) error {
				r.breakLock(name)
				r.lock(r.client().Mutex(name).Lock)
				<-ctx.Done()
				return returns(ctx)
			}))
			r.breakLock(name)
		}
	},
	"broken": func(r *rig, name string, see func(error)) {
		l := r.lock(r.client().Mutex(name).Lock)
		r.breakLock(name)
		<-l.Context().Done()
		see(l.Err())
		see(context.Cause(l.Context()))
		see(l.Unlock(r.Context()))
	},
	"all": func(r *rig, name string, see func(error)) {
		c := r.client()
		var parts []holdfast.Part
		for i := range 40 {
			parts = append(parts, c.Mutex(fmt.Sprint(i, name)))
		}
		m := r.lockAll(parts...)
		for i := range 40 {
			r.breakLock(fmt.Sprint(i, name))
		}
		<-m.Context().Done()
		r.pass(ttl)
		see(m.Err())
		see(m.Unlock(r.Context()))
	},
	"a part, waiting for another": func(r *rig, name string, see func(error)) {
		r.lock(r.client().Mutex(name + "2").Lock)
		c := r.client()
		waits := r.begin(func(ctx context.Context) (*holdfast.Lease, error) {
			return nil, errorOf(holdfast.LockAll(ctx, c.Mutex(name), c.Mutex(name+"2")))
		})
		r.breakLock(name)
		<-waits.returned
		see(waits.err)
	},
	"silence": func(r *rig, name string, see func(error)) {
		for _, asked := range []bool{false, true} {
			c, pipe := r.linked()
			l := r.lock(c.Mutex(name).Lock)
			release := pipe.HoldRequests()
			if asked { // by the lease, before the keeper has noticed
				time.Sleep(time.Until(l.Until()))
			} else {
				<-l.Context().Done()
			}
			see(l.Err())
			see(context.Cause(l.Context()))
			see(l.Unlock(r.Context()))
			see(errorOf(l.Downgrade(r.Context())))
			release()
			r.pass(ttl)
		}
	},
}

var faultScenes = map[string]errorScene{
	"cut": func(r *rig, name string, see func(error)) {
		c, pipe := r.linked()
		l := r.lock(c.Mutex("held").Lock)
		all := r.lockAll(c.Mutex("a"), c.Mutex("b"))
		r.lock(r.client().Mutex(name).Lock)
		ctx := r.within(time.Second)
		waits := r.begin(func(context.Context) (*holdfast.Lease, error) {
			return c.Mutex(name, holdfast.WithWait(ttl)).Lock(r.Context())
		})
		pipe.Cut()
		see(errorOf(c.Mutex(name).Lock(ctx)))
		see(errorOf(c.Mutex(name).TryLock(ctx)))
		see(errorOf(c.Inspect(ctx, name)))
		see(errorOf(c.Election(name).Leader(ctx)))
		see(c.Break(ctx, name, 1<<8))
		for _, err := range c.Names(ctx, "") {
			see(err)
		}
		see(l.Unlock(ctx))
		see(all.Unlock(ctx))
		<-waits.returned
		see(waits.err)
	},
	"silent": func(r *rig, name string, see func(error)) {
		c, pipe := r.linked()
		l := r.lock(c.Mutex("held").Lock)
		release := pipe.HoldRequests()
		defer release()
		see(errorOf(c.Mutex(name).Lock(r.within(time.Second))))
		see(errorOf(c.Mutex(name).TryLock(r.within(time.Second))))
		see(errorOf(c.Inspect(r.within(time.Second), name)))
		see(l.Unlock(r.within(time.Second)))
	},
	"silent while waiting": func(r *rig, name string, see func(error)) {
		r.lock(r.client().Mutex(name).Lock)
		c, pipe := r.linked()
		short, cancel := context.WithTimeout(r.Context(), time.Second) // before any renewal
		defer cancel()
		long, cancel := context.WithTimeout(r.Context(), ttl)
		defer cancel()
		first := r.begin(func(context.Context) (*holdfast.Lease, error) { return c.Mutex(name).Lock(short) })
		second := r.begin(func(context.Context) (*holdfast.Lease, error) { return c.Mutex(name).Lock(long) })
		defer pipe.HoldRequests()()
		<-first.returned
		see(first.err)
		<-second.returned
		see(second.err)
	},
	"a cause of many lines": func(r *rig, name string, see func(error)) {
		for _, err := range []error{
			errors.Join(io.ErrUnexpectedEOF, errors.New("and more")),
			fmt.Errorf("nodes: %w", errors.Join(io.ErrUnexpectedEOF, errors.New("and more"))),
		} {
			fault := &store.Fault{Store: "memory", Err: err}
			c := r.around(&detour{join: func(context.Context, store.Claim) error { return fault }})
			see(errorOf(c.Mutex(name).TryLock(r.Context())))
		}
	},
}
