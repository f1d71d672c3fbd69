package gocronlock_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"

	"github.com/go-co-op/gocron/v2"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/adapters/gocronlock"
	"github.com/holdfast-go/holdfast/internal/testkit"
	"github.com/holdfast-go/holdfast/memstore"
)

// leads waits until an elector leads.
func leads(t *testing.T, e *gocronlock.Elector) {
	t.Helper()
	testkit.Await(t, "it leads", func() bool { return e.IsLeader(t.Context()) == nil })
}

// TestOneLeads: of two machines the first leads, and only it runs the job. When it is closed, the other does.
func TestOneLeads(t *testing.T) {
	server := memstore.NewServer()
	var electors []*gocronlock.Elector
	elect := func(locks *holdfast.Client) gocron.SchedulerOption {
		e := gocronlock.NewElector(t.Context(), locks, "schedulers")
		t.Cleanup(func() { testkit.Check(t, e.Close()) })
		electors = append(electors, e)
		return gocron.WithDistributedElector(e)
	}
	first := newMachine(t, server, elect)
	leads(t, electors[0])
	second := newMachine(t, server, elect)
	var ran [2]atomic.Int32
	for i, m := range []*machine{first, second} {
		m.everyMinute(func() { ran[i].Add(1) })
	}
	second.passMinute()
	second.passMinute() // when the job is scheduled again, its first run has been skipped
	first.passMinute()
	testkit.Await(t, "the leader runs the job", func() bool { return ran[0].Load() == 1 })
	if err := electors[1].IsLeader(t.Context()); !errors.Is(err, gocronlock.ErrNotLeader) || ran[1].Load() != 0 {
		t.Errorf("%v, and the job ran %d times", err, ran[1].Load())
	}

	testkit.Check(t, electors[0].Close())
	if err := electors[0].IsLeader(t.Context()); !errors.Is(err, gocronlock.ErrNotLeader) {
		t.Error(err)
	}
	leads(t, electors[1])
	second.passMinute()
	testkit.Await(t, "the next leader runs the job", func() bool { return ran[1].Load() > 0 })
	if ran[0].Load() != 1 {
		t.Errorf("the first ran it %d times", ran[0].Load())
	}
}

// TestLeadershipLost: an elector whose leadership is lost reports that at once, its context ends, and it leads again.
func TestLeadershipLost(t *testing.T) {
	server := memstore.NewServer()
	locks := holdfast.New(server.Connect())
	defer locks.Close()
	e := gocronlock.NewElector(t.Context(), locks, "schedulers")
	defer e.Close()
	leads(t, e)
	before, ok := e.Context()
	old, hasToken := holdfast.TokenFrom(before)
	server.Revoke("schedulers")
	<-before.Done()
	if !ok || !hasToken || !errors.Is(context.Cause(before), holdfast.ErrLost) {
		t.Error(ok, hasToken, context.Cause(before))
	}
	leads(t, e)
	after, _ := e.Context()
	if token, _ := holdfast.TokenFrom(after); token <= old {
		t.Errorf("token %v after %v", token, old)
	}
}

// TestCampaignEnds: with its context quietly, and by itself with a reason.
func TestCampaignEnds(t *testing.T) {
	locks := holdfast.New(memstore.New())
	ctx, cancel := context.WithCancel(t.Context())
	e := gocronlock.NewElector(ctx, locks, "schedulers")
	leads(t, e)
	cancel()
	testkit.Await(t, "it no longer leads", func() bool { return e.IsLeader(t.Context()) != nil })
	testkit.Check(t, e.Close())
	testkit.Check(t, e.Close())

	e = gocronlock.NewElector(t.Context(), locks, "schedulers")
	leads(t, e)
	testkit.Check(t, locks.Close())
	testkit.Await(t, "the campaign ends", func() bool {
		err := e.IsLeader(t.Context())
		return errors.Is(err, gocronlock.ErrNotLeader) && errors.Is(err, holdfast.ErrClosed)
	})
	if err := e.Close(); !errors.Is(err, holdfast.ErrClosed) {
		t.Error(err)
	}
	e = gocronlock.NewElector(t.Context(), locks, "")
	if err := e.Close(); err != nil && !errors.Is(err, holdfast.ErrBadName) {
		t.Error(err)
	}
	if ctx, ok := e.Context(); ok || ctx.Err() == nil {
		t.Error("it never led, and its context has not ended")
	}
}
