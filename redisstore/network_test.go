package redisstore_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/lab/proxy"
	"github.com/holdfast-go/holdfast/redisstore"
	"github.com/holdfast-go/holdfast/store"
)

// takeTurns lets goroutines of two clients take turns while there is trouble, again and again, three times at least. All
// must get through, one at a time, with rising tokens.
func takeTurns(t *testing.T, url string, trouble func()) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 4*patience)
	defer cancel()
	var turn sync.Mutex
	var last holdfast.Token
	var troubles atomic.Int64
	var workers sync.WaitGroup
	for range 2 {
		locks := holdfast.New(openAt(t, url), holdfast.HandOver(0, 0))
		t.Cleanup(func() { locks.Close() })
		for range 4 {
			workers.Go(func() {
				for i := 0; i < 15 || troubles.Load() < 3; i++ {
					err := locks.Mutex("contended").Do(ctx, func(ctx context.Context) error {
						if !turn.TryLock() {
							return errors.New("two at once")
						}
						defer turn.Unlock()
						token, _ := holdfast.TokenFrom(ctx)
						if token <= last {
							return fmt.Errorf("token %v after %v", token, last)
						}
						last = token
						return nil
					})
					if fault, ok := errors.AsType[*store.Fault](err); ok && !fault.Final {
						continue // a first Join that fails is an error at once
					}
					if err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
	}
	done := make(chan struct{})
	go func() {
		workers.Wait()
		close(done)
	}()
	for {
		select {
		case <-done:
			return
		case <-time.After(10 * time.Millisecond):
			trouble()
			troubles.Add(1)
		}
	}
}

func TestScriptFlush(t *testing.T) {
	server, _ := newServer(t, "")
	takeTurns(t, "redis://"+server.Addr(), func() { do(t, server, "SCRIPT", "FLUSH") })
}

// Connections may be ended at any time: those for commands, those for pushes, or all.
func TestClientKill(t *testing.T) {
	server, _ := newServer(t, "")
	kinds := []string{"normal", "pubsub"}
	takeTurns(t, "redis://"+server.Addr(), func() {
		do(t, server, "CLIENT", "KILL", "TYPE", kinds[0])
		kinds[0], kinds[1] = kinds[1], kinds[0]
	})
}

// Pushes that were lost with their connection are made up for.
func TestEveryoneIsTold(t *testing.T) {
	server, s := newServer(t, "")
	told := make(chan store.ID, 10)
	s.Notify(func(id store.ID, _ store.Standing) { told <- id })
	do(t, server, "CLIENT", "KILL", "TYPE", "pubsub")
	select {
	case id := <-told:
		if id != store.Everyone {
			t.Errorf("told of %v, want of everyone", id)
		}
	case <-time.After(patience):
		t.Fatal("the store does not say that pushes may have been lost")
	}
	holder, waiter := claim("told"), claim("told")
	join(t, s, &holder, store.Held)
	join(t, s, &waiter, store.Waiting)
	leave(t, s, holder)
	select {
	case id := <-told:
		if id != waiter.ID {
			t.Errorf("told of %v, want of %v", id, waiter.ID)
		}
	case <-time.After(patience):
		t.Fatal("pushes do not come any more")
	}
}

// A release that lets many in sends one message to each process.
func TestOneMessageForEachProcess(t *testing.T) {
	server, a := newServer(t, "")
	b := openAt(t, "redis://"+server.Addr())
	var told sync.WaitGroup
	for _, s := range []*redisstore.Store{a, b} {
		s.Notify(func(_ store.ID, standing store.Standing) {
			if standing.State == store.Held {
				told.Done()
			}
		})
	}
	writer := claim("crowd")
	join(t, a, &writer, store.Held)
	for range 10 {
		for _, s := range []*redisstore.Store{a, b} {
			c := reader("crowd")
			join(t, s, &c, store.Waiting)
			told.Add(1)
		}
	}
	before := calls(t, server, "publish")
	leave(t, a, writer)
	told.Wait()
	if n := calls(t, server, "publish") - before; n != 2 {
		t.Errorf("20 readers of two processes were told by %d messages, want 2", n)
	}
}

// Messages that nobody understands are no reason to fall over.
func TestStrangeMessages(t *testing.T) {
	server, s := newServer(t, "")
	told := make(chan store.ID, 10)
	s.Notify(func(id store.ID, _ store.Standing) { told <- id })
	channel := strings.Trim(do(t, server, "PUBSUB", "CHANNELS", "holdfast:{}:push:*"), "[]")
	c := claim("x")
	for _, message := range []string{
		"", "h", "h x", "h " + c.ID.String(), "h " + c.ID.String() + " x", "z " + c.ID.String() + " 1",
		"h " + store.Everyone.String() + " 1", "h " + c.ID.String() + " 7",
	} {
		do(t, server, "PUBLISH", channel, message)
	}
	if id := <-told; id != c.ID || len(told) > 0 {
		t.Errorf("told of %v and %d more", id, len(told))
	}
}

// More calls at once than a connection has room for, while it is silent: all end with their contexts. What was given up
// before it was sent is never sent. And when the server is back, so is the store.
func TestManyCallsInSilence(t *testing.T) {
	server, _ := newServer(t, "")
	p, err := proxy.Start("tcp", server.Addr())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	s := openAt(t, "redis://"+p.Addr())
	reach(t, s)
	release := p.Hold(proxy.Requests)
	before := calls(t, server, "evalsha")
	giveUp(t, s, 3000, 300*time.Millisecond)
	release()
	reach(t, s)
	if n := calls(t, server, "evalsha") - before; n > 300 {
		t.Errorf("of 3000 calls that were given up, %d were sent", n)
	}
}

// The same, one after the other: each was sent, and takes its room until it is answered.
func TestManyCallsOneAfterTheOther(t *testing.T) {
	server, _ := newServer(t, "")
	p, err := proxy.Start("tcp", server.Addr())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	s := openAt(t, "redis://"+p.Addr())
	release := p.Hold(proxy.Requests)
	for range 120 { // rueidis has room for 1024
		giveUp(t, s, 10, 2*time.Millisecond)
	}
	release()
	reach(t, s)
}

// giveUp makes n calls that get no answer, and demands that they end with their context.
func giveUp(t *testing.T, s *redisstore.Store, n int, after time.Duration) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), after)
	defer cancel()
	var waiting sync.WaitGroup
	for range n {
		waiting.Go(func() {
			if _, err := s.Line(ctx, "silence"); err == nil {
				t.Error("an answer came out of the silence")
			}
		})
	}
	waiting.Wait()
	if late := time.Since(deadlineOf(ctx)); late > 3*time.Second { // a connection that is silent is given up after four
		t.Fatalf("the last call ended %v after its context", late)
	}
}

func deadlineOf(ctx context.Context) time.Time {
	deadline, _ := ctx.Deadline()
	return deadline
}

// A call that was given up does not take its room for ever.
func TestAbandonedRoomComesBack(t *testing.T) {
	server, _ := newServer(t, "")
	p, err := proxy.Start("tcp", server.Addr())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	s := openAt(t, "redis://"+p.Addr())
	for range 8 { // eight times a hundred, and a wire has room for 256
		release := p.Hold(proxy.Replies)
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
		var waiting sync.WaitGroup
		for range 100 {
			waiting.Go(func() { s.Line(ctx, "given up") }) //nolint:errcheck // it is given up
		}
		waiting.Wait()
		cancel()
		release()
		reach(t, s)
	}
	if n := p.Connections(); n != 2 {
		t.Errorf("there are %d connections, want still two", n)
	}
}
