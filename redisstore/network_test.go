package redisstore_test

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/servers"
	"github.com/holdfast-go/holdfast/internal/testkit"
	"github.com/holdfast-go/holdfast/lab/proxy"
	"github.com/holdfast-go/holdfast/redisstore"
	"github.com/holdfast-go/holdfast/store"
)

// takeTurns lets goroutines of two clients take turns while there is trouble, again and again, three times at least.
// All must get through, one at a time, with rising tokens.
func takeTurns(t *testing.T, url string, trouble func()) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 4*testkit.Patience)
	defer cancel()
	var turns testkit.Turns
	var troubles atomic.Int64
	var workers sync.WaitGroup
	for range 2 {
		locks := holdfast.New(openAt(t, url), holdfast.WithHandOver(0, 0))
		t.Cleanup(func() { locks.Close() })
		for range 4 {
			workers.Go(func() {
				for i := 0; i < 15 || troubles.Load() < 3; i++ {
					err := locks.Mutex("contended").Do(ctx, turns.Take)
					if testkit.Passes(err) {
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
	t.Parallel()
	server := servers.Redis(t)
	takeTurns(t, "redis://"+server.Addr(), func() { do(t, server, "SCRIPT", "FLUSH") })
}

// Connections may be ended at any time: those for commands, those for pushes, or all.
func TestClientKill(t *testing.T) {
	t.Parallel()
	server := servers.Redis(t)
	kinds := []string{"normal", "pubsub"}
	takeTurns(t, "redis://"+server.Addr(), func() {
		do(t, server, "CLIENT", "KILL", "TYPE", kinds[0])
		kinds[0], kinds[1] = kinds[1], kinds[0]
	})
}

// Pushes that were lost with their connection are made up for.
func TestEveryoneIsTold(t *testing.T) {
	server, s := newServer(t, "")
	told := testkit.Listen(s)
	do(t, server, "CLIENT", "KILL", "TYPE", "pubsub")
	if id := testkit.NextTold(t, told, "the store says that pushes may have been lost"); id != store.Everyone {
		t.Errorf("told of %v, want of everyone", id)
	}
	holder, waiter := testkit.Held(t, s, claim("told")), testkit.Waiting(t, s, claim("told"))
	testkit.Leave(t, s, holder)
	if id := testkit.NextTold(t, told, "pushes come again"); id != waiter.ID {
		t.Errorf("told of %v, want of %v", id, waiter.ID)
	}
}

// A release that lets many in sends one message to each process.
func TestOneMessageForEachProcess(t *testing.T) {
	server, a := newServer(t, "")
	b := openAt(t, "redis://"+server.Addr())
	var told sync.WaitGroup
	for _, s := range []*redisstore.Store{a, b} {
		s.Notify(func(_ store.ID, standing store.Status) {
			if standing.State == store.Held {
				told.Done()
			}
		})
	}
	writer := testkit.Held(t, a, claim("crowd"))
	for range 10 {
		for _, s := range []*redisstore.Store{a, b} {
			testkit.Waiting(t, s, reader("crowd"))
			told.Add(1)
		}
	}
	before := calls(t, server, "publish")
	testkit.Leave(t, a, writer)
	told.Wait()
	if n := calls(t, server, "publish") - before; n != 2 {
		t.Errorf("20 readers of two processes were told by %d messages, want 2", n)
	}
}

// Messages that nobody understands are no reason to fall over.
func TestStrangeMessages(t *testing.T) {
	server, s := newServer(t, "")
	told := testkit.Listen(s)
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
	server := servers.Redis(t)
	p := testkit.Proxy(t, server.Addr())
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
	server := servers.Redis(t)
	p := testkit.Proxy(t, server.Addr())
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
			if _, err := s.Queue(ctx, "silence"); err == nil {
				t.Error("an answer came out of the silence")
			}
		})
	}
	waiting.Wait()
	deadline, _ := ctx.Deadline()
	if late := time.Since(deadline); late > 3*time.Second { // a connection that is silent is given up after four
		t.Fatalf("the last call ended %v after its context", late)
	}
}

// A call that was given up does not take its room forever.
func TestAbandonedRoomComesBack(t *testing.T) {
	server := servers.Redis(t)
	p := testkit.Proxy(t, server.Addr())
	s := openAt(t, "redis://"+p.Addr())
	for range 8 { // eight times a hundred, and a connection has room for 256
		release := p.Hold(proxy.Replies)
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
		var waiting sync.WaitGroup
		for range 100 {
			waiting.Go(func() { s.Queue(ctx, "given up") }) //nolint:errcheck // it is given up
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
