package holdfast_test

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/memstore"
	"github.com/holdfast-go/holdfast/store"
)

// TestBadInput: each is a distinct error, at once, and nothing is changed by it.
func TestBadInput(t *testing.T) {
	var none context.Context
	ctx := t.Context()
	type attempt func(*holdfast.Client) error
	lock := func(name string, options ...holdfast.Option) attempt {
		return func(c *holdfast.Client) error {
			_, err := c.Mutex(name, options...).Lock(ctx)
			return err
		}
	}
	acquire := func(limit, n int) attempt {
		return func(c *holdfast.Client) error {
			_, err := c.Semaphore("x", limit).Acquire(ctx, n)
			return err
		}
	}
	for what, bad := range map[string]struct {
		attempt attempt
		want    error
	}{
		"empty name":         {lock(""), holdfast.ErrBadName},
		"long name":          {lock(strings.Repeat("x", 513)), holdfast.ErrBadName},
		"NUL in a name":      {lock("a\x00b"), holdfast.ErrBadName},
		"not UTF-8":          {lock("a\xff"), holdfast.ErrBadName},
		"ttl zero":           {lock("x", holdfast.WithTTL(0)), holdfast.ErrBadTTL},
		"ttl negative":       {lock("x", holdfast.WithTTL(-1)), holdfast.ErrBadTTL},
		"ttl below":          {lock("x", holdfast.WithTTL(memstore.MinTTL-1)), holdfast.ErrBadTTL},
		"ttl above":          {lock("x", holdfast.WithTTL(memstore.MaxTTL+1)), holdfast.ErrBadTTL},
		"fixed ttl negative": {lock("x", holdfast.WithFixedTTL(-1)), holdfast.ErrBadTTL},
		"grace negative":     {lock("x", holdfast.WithGrace(-1)), holdfast.ErrBadOption},
		"wait zero":          {lock("x", holdfast.WithWait(0)), holdfast.ErrBadOption},
		"long label":         {lock("x", holdfast.WithLabel(strings.Repeat("x", 513))), holdfast.ErrBadOption},
		"nil logger":         {lock("x", holdfast.WithLogger(nil)), holdfast.ErrBadOption},
		"nil option":         {lock("x", nil), holdfast.ErrBadOption},
		"turns negative":     {lock("x", holdfast.WithHandOver(-1, time.Second)), holdfast.ErrBadOption},
		"too many turns": {lock("x", holdfast.WithHandOver(holdfast.MaxTurns+1, time.Second)),
			holdfast.ErrBadOption},
		"negative time":  {lock("x", holdfast.WithHandOver(1, -1)), holdfast.ErrBadOption},
		"no units":       {acquire(5, 0), holdfast.ErrBadUnits},
		"negative units": {acquire(5, -1), holdfast.ErrBadUnits},
		"too many units": {acquire(5, 6), holdfast.ErrBadUnits},
		"limit zero":     {acquire(0, 1), holdfast.ErrBadUnits},
		"limit too high": {acquire(store.MaxReaders+1, 1), holdfast.ErrBadUnits},
		"nil context": {func(c *holdfast.Client) error { _, err := c.Mutex("x").Lock(none); return err },
			holdfast.ErrNilContext},
		"nil context in Do": {func(c *holdfast.Client) error {
			return c.Mutex("x").Do(none, func(context.Context) error { return nil })
		}, holdfast.ErrNilContext},
		"nil context in Inspect": {func(c *holdfast.Client) error { _, err := c.Inspect(none, "x"); return err },
			holdfast.ErrNilContext},
		"inspect a bad name": {func(c *holdfast.Client) error { _, err := c.Inspect(ctx, ""); return err },
			holdfast.ErrBadName},
		"break a bad name": {func(c *holdfast.Client) error { return c.Break(ctx, "", 1<<8) },
			holdfast.ErrBadName},
		"break without a claim": {func(c *holdfast.Client) error { return c.Break(ctx, "x", 1<<8) },
			holdfast.ErrNotHeld},
		"break token 0": {func(c *holdfast.Client) error { return c.Break(ctx, "x", 0) }, holdfast.ErrNotHeld},
	} {
		t.Run(what, func(t *testing.T) {
			server := memstore.NewServer()
			c := holdfast.New(server.Connect())
			defer c.Close()
			err := bad.attempt(c)
			if !errors.Is(err, bad.want) {
				t.Fatalf("got %v, want %v", err, bad.want)
			}
			if !strings.HasPrefix(err.Error(), "holdfast: ") || strings.Count(err.Error(), "holdfast: ") != 1 {
				t.Errorf("it reads %q", err)
			}
			if server.Residue("x") != 0 {
				t.Error("something was changed")
			}
		})
	}
}

func TestNilContextsLeaveALeaseAlone(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		var none context.Context
		l := r.lock(r.client().Mutex("x").Lock)
		if err := l.Unlock(none); !errors.Is(err, holdfast.ErrNilContext) {
			t.Fatalf("Unlock: %v", err)
		}
		if _, err := l.Downgrade(none); !errors.Is(err, holdfast.ErrNilContext) {
			t.Fatalf("Downgrade: %v", err)
		}
		if _, ok := holdfast.TokenFrom(none); ok {
			t.Fatal("a token from no context")
		}
		if l.Err() != nil {
			t.Fatalf("it cost the lease: %v", l.Err())
		}
	})
}

func TestClientWithBadOptionsFailsAtUse(t *testing.T) {
	for what, c := range map[string]*holdfast.Client{
		"ttl":      holdfast.New(memstore.New(), holdfast.WithTTL(-time.Second)),
		"turns":    holdfast.New(memstore.New(), holdfast.WithHandOver(holdfast.MaxTurns+1, time.Second)),
		"no store": holdfast.New(nil),
	} {
		t.Run(what, func(t *testing.T) {
			if _, err := c.Mutex("x").TryLock(t.Context()); err == nil {
				t.Error("it was taken")
			}
			for _, err := range c.Names(t.Context(), "") {
				if err == nil {
					t.Error("names were listed")
				}
			}
			if err := c.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestOpen(t *testing.T) {
	ctx := t.Context()
	for url, want := range map[string]string{
		"":                                    "begins with a scheme",
		"nonsense":                            "begins with a scheme",
		"gopher://x":                          "no store is registered for the URL's scheme",
		"memory:?tll=5s":                      "unknown parameter in the URL of a memory store, which has prefix, ttl",
		"memory:?ttl=fast":                    "ttl is a positive duration",
		"memory:?ttl=1ns":                     "bad ttl",
		"memory://host":                       "has no host",
		"gopher://u:s3cret@x/%z":              "malformed",
		"gopher://u:s3cret@x?password=s3cret": "no store is registered",
	} {
		c, err := holdfast.Open(ctx, url)
		if err == nil {
			c.Close()
			t.Errorf("%s was opened", url)
			continue
		}
		if !strings.Contains(err.Error(), want) || !strings.HasPrefix(err.Error(), "holdfast: open") ||
			strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%s: %q, want %q in it, and no secret", url, err, want)
		}
	}
	var none context.Context
	if _, err := holdfast.Open(none, "memory:"); !errors.Is(err, holdfast.ErrNilContext) {
		t.Errorf("got %v", err)
	}
}

func TestOpenShared(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		open := func(url string) *holdfast.Client {
			c, err := holdfast.Open(t.Context(), url, holdfast.WithLogger(slog.New(slog.DiscardHandler)))
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { c.Close() })
			return c
		}
		url := "memory:" + rand.Text() // not one of another run, whose bubble of time is gone
		l := r.lock(open(url + "?ttl=90s").Mutex("x").Lock)
		if left := time.Until(l.Until()); left < 80*time.Second || left > 90*time.Second {
			t.Fatalf("the URL's ttl was not taken: %v", left)
		}
		r.refused("the same name is another store", open(url).Mutex("x").TryLock, holdfast.ErrLocked)
		r.unlock(r.lock(open(url + "?prefix=tenant/").Mutex("x").TryLock))
		r.unlock(r.lock(open("memory:").Mutex("x").TryLock))
		r.unlock(l)
	})
}

// tenYears is the greatest WithFixedTTL.
const tenYears = 10 * 365 * 24 * time.Hour

// TestAbsurdTimesAreRefused: sums of them with the time of day do not fit into 64 bits. Such a deadline would be in
// the past, and the lock free while it is held.
func TestAbsurdTimesAreRefused(t *testing.T) {
	for what, bad := range map[string]struct {
		option holdfast.Option
		want   error
	}{
		"TTL":                   {holdfast.WithTTL(math.MaxInt64), holdfast.ErrBadTTL},
		"Grace":                 {holdfast.WithGrace(math.MaxInt64), holdfast.ErrBadOption},
		"Grace, a little":       {holdfast.WithGrace(memstore.MaxTTL + 1), holdfast.ErrBadOption},
		"WithFixedTTL":          {holdfast.WithFixedTTL(math.MaxInt64), holdfast.ErrBadTTL},
		"WithFixedTTL a little": {holdfast.WithFixedTTL(tenYears + 1), holdfast.ErrBadTTL},
	} {
		scene(t, what, func(t *testing.T, r *rig) {
			for where, m := range map[string]*holdfast.Mutex{
				"client": r.client(bad.option).Mutex("x"), "lock": r.client().Mutex("x", bad.option),
			} {
				if l, err := m.TryLock(t.Context()); !errors.Is(err, bad.want) {
					t.Errorf("given to a %s: %v, %v", where, l, err)
				}
			}
			r.nothingLeft("x")
		})
	}
	scene(t, "the greatest", func(t *testing.T, r *rig) {
		l := r.lock(r.client().Mutex("x", holdfast.WithTTL(memstore.MaxTTL), holdfast.WithGrace(memstore.MaxTTL),
			holdfast.WithFixedTTL(tenYears)).Lock)
		r.pass(time.Minute)
		if _, err := r.client().Mutex("x").TryLock(t.Context()); !errors.Is(err, holdfast.ErrLocked) || l.Err() != nil {
			t.Fatalf("the lease says %v, another's TryLock %v", l.Err(), err)
		}
	})
}
