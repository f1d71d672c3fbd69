package cli

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
)

func wants(c *holdfast.Client, f *runFlags, names ...string) (all []holdfast.Part) {
	for _, name := range names {
		all = append(all, f.want(c, name, nil))
	}
	return all
}

// TestTryAll checks that what is tried is had as a whole or not at all.
func TestTryAll(t *testing.T) {
	f := &runFlags{}
	mine, other := client(t), client(t)
	taken, err := other.Mutex("b").TryLock(t.Context())
	check(t, err)
	g, err := gripOf(holdfast.TryLockAll(t.Context(), wants(mine, f, "a", "b", "c")...))
	if !errors.Is(err, holdfast.ErrLocked) || g != nil {
		t.Fatalf("%v, %v", g, err)
	}
	if _, err := other.Mutex("a").TryLock(t.Context()); err != nil {
		t.Fatalf("the first was not given back: %v", err)
	}
	check(t, taken.Unlock(t.Context()))
	g, err = gripOf(holdfast.TryLockAll(t.Context(), wants(mine, f, "c", "b")...))
	check(t, err)
	if tokens := g.Tokens(); len(tokens) != 2 || tokens[0] == tokens[1] || g.Err() != nil ||
		time.Until(g.Until()) < time.Second {
		t.Errorf("%v, %v, %v", tokens, g.Err(), g.Until())
	}
	check(t, other.Break(t.Context(), "b", g.Tokens()[1]))
	<-g.Context().Done()
	if !errors.Is(g.Err(), holdfast.ErrLost) || !errors.Is(context.Cause(g.Context()), holdfast.ErrLost) {
		t.Errorf("one of two is lost, and it says %v, %v", g.Err(), context.Cause(g.Context()))
	}
	if err := g.Unlock(t.Context()); !errors.Is(err, holdfast.ErrLost) {
		t.Errorf("unlocked: %v", err)
	}
	if _, err := other.Mutex("c").TryLock(t.Context()); err != nil {
		t.Errorf("the other of two was not given back: %v", err)
	}
}

// TestWanted checks that flags ask for the kind of lock that they name.
func TestWanted(t *testing.T) {
	for _, c := range []struct {
		flags runFlags
		want  string
	}{
		{runFlags{}, "exclusive"},
		{runFlags{shared: true}, "shared"},
		{runFlags{slots: 5, units: 2}, "2 of 5"},
	} {
		for how, take := range map[string]func(context.Context, ...holdfast.Part) (*holdfast.MultiLease, error){
			"try": holdfast.TryLockAll, "wait": holdfast.LockAll,
		} {
			l := client(t)
			g, err := take(t.Context(), wants(l, &c.flags, c.want)...)
			check(t, err)
			line, err := l.Inspect(t.Context(), c.want)
			if err != nil || len(line.Holders()) != 1 || mode(line.Holders()[0]) != c.want {
				t.Errorf("%s: %+v, %v", how, line, err)
			}
			if err := g.Unlock(t.Context()); err != nil {
				t.Error(err)
			}
		}
	}
}
