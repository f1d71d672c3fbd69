package etcdstore_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"

	"github.com/holdfast-go/holdfast/etcdstore"
	"github.com/holdfast-go/holdfast/internal/servers"
	"github.com/holdfast-go/holdfast/internal/testkit"
	"github.com/holdfast-go/holdfast/store"
)

// A Try that was refused leaves nothing that could come later: its caller never leaves it.
func TestRefusedTryLandsNoMore(t *testing.T) {
	t.Parallel()
	server, f, s := newFerry(t, etcdstore.DefaultTTL)
	other := openAt(t, "etcd://"+server.Addr())
	holder, try := claim("a"), claim("a")
	testkit.Join(t, other, &holder, store.Held)

	f.next(stranded)
	try.Try = true
	testkit.Join(t, s, &try, store.Gone)
	testkit.Leave(t, other, holder)
	f.land(t)
	testkit.CheckLength(t, s, "a", 0)
}

// A Try whose answer was lost, and which was not held when it landed, is out and not in the queue.
func TestLandedTryIsNotInLine(t *testing.T) {
	t.Parallel()
	server, f, s := newFerry(t, etcdstore.DefaultTTL)
	other := openAt(t, "etcd://"+server.Addr())
	reader, writer, try := claim("a"), claim("a"), claim("a")
	reader.Units, try.Units, try.Try = 1, 1, true
	testkit.Join(t, other, &reader, store.Held)

	// The Try reads a queue in which it would fit. Then a writer comes before it.
	f.set(func(nth int) fate {
		if nth == 2 {
			testkit.Join(t, other, &writer, store.Waiting)
			return unanswered
		}
		return delivered
	})
	testkit.Join(t, s, &try, store.Gone)
	testkit.CheckLength(t, s, "a", 2)
}

// A claim that stands where its answer was lost is refused for the same reasons as one whose answer came.
func TestLandedJoinIsJudged(t *testing.T) {
	t.Parallel()
	server, f, s := newFerry(t, etcdstore.DefaultTTL)
	other := openAt(t, "etcd://"+server.Addr())
	for name, ask := range map[string]store.Demand{
		"all of a semaphore":  {Kind: store.Semaphore, Units: 3, Limit: 3},
		"part of a semaphore": {Kind: store.Semaphore, Units: 1, Limit: 3},
	} {
		t.Run(name, func(t *testing.T) {
			holder, c := claim(name), claim(name)
			testkit.Join(t, other, &holder, store.Held)
			c.Demand = ask
			f.next(unanswered)
			notJoined(t, s, c, store.ErrMismatch, 1)
		})
	}
	t.Run("below the floor", func(t *testing.T) {
		c := claim("floor")
		c.Floor = 1 << 40
		f.next(unanswered)
		notJoined(t, s, c, store.ErrFloor, 0)
	})
}

// notJoined demands that a Join fails for a reason, and that so many are in the queue then.
func notJoined(t *testing.T, s *etcdstore.Store, c store.Claim, why error, stand int) {
	t.Helper()
	if got, err := s.Join(t.Context(), c); !errors.Is(err, why) {
		t.Errorf("%v and %v; want %v", got.State, err, why)
	}
	testkit.CheckLength(t, s, c.Name, stand)
}

// A claim that somebody broke does not come back with a Join of its own that was late.
func TestBrokenClaimLandsNoMore(t *testing.T) {
	t.Parallel()
	_, f, s := newFerry(t, lastingTTL)
	c := claim("a")
	f.next(stranded)
	testkit.Join(t, s, &c, store.Held)
	testkit.Must(t, s.Break(t.Context(), "a", c.Ticket))
	testkit.Keep(t, s, c, store.Gone)
	f.land(t)
	testkit.Await(t, "the late one is taken out", func() bool { return testkit.Length(t, s, "a") == 0 })
}

// A Leave takes out what landed late, also if that is not what its claim knew of.
func TestLeaveTakesOutWhatLandedLate(t *testing.T) {
	t.Parallel()
	server, f, s := newFerry(t, etcdstore.DefaultTTL)
	c := claim("a")
	f.next(stranded)
	testkit.Join(t, s, &c, store.Held)
	_, err := server.Client(t).Delete(t.Context(), etcdstore.KeyOf(s, c))
	testkit.Must(t, err)
	f.land(t)
	testkit.Leave(t, s, c)
	testkit.CheckLength(t, s, "a", 0)
}

// A claim that its own session has in the queue, and nobody knows of, does not lock its client out.
func TestUnknownOfOwnSessionIsTakenOut(t *testing.T) {
	t.Parallel()
	_, f, s := newFerry(t, etcdstore.DefaultTTL)
	first, next := claim("a"), claim("a")
	f.next(repeated)
	testkit.Join(t, s, &first, store.Held)
	testkit.Leave(t, s, first)
	f.land(t)
	testkit.Join(t, s, &next, store.Held)
}

// Whoever breaks a claim and has to ask twice is not told that it was not there.
func TestBreakWhoseAnswerIsLost(t *testing.T) {
	t.Parallel()
	_, f, s := newFerry(t, etcdstore.DefaultTTL)
	c := testkit.Held(t, s, claim("a"))
	lost := false
	f.decide(func(r *etcdserverpb.TxnRequest) fate {
		if lost || !deletes(r) {
			return delivered
		}
		lost = true
		return unanswered
	})
	if err := s.Break(t.Context(), "a", c.Ticket); err != nil || !lost {
		t.Errorf("Break says %v, and its answer was lost: %v", err, lost)
	}
}

// Who joins again after an error is not taken out with what was left of the first time.
func TestJoinAgainWhileItIsTakenOut(t *testing.T) {
	t.Parallel()
	_, f, s := newFerry(t, lastingTTL)
	c, next := claim("a"), claim("a")
	voiding := make(chan struct{}, 1)
	f.decide(func(r *etcdserverpb.TxnRequest) fate {
		switch {
		case joins(r):
			return unanswered
		case voids(r):
			voiding <- struct{}{}
			return detained
		}
		return delivered
	})
	if got, err := s.Join(t.Context(), c); err == nil {
		t.Fatalf("Join without an answer says %v", got.State)
	}
	<-voiding
	f.mu.Lock()
	f.strand = nil
	f.mu.Unlock()

	joined := make(chan error, 1)
	go func() {
		got, err := s.Join(t.Context(), c)
		if c.Ticket = got.Ticket; err == nil && got.State != store.Held {
			err = fmt.Errorf("it is %v", got.State)
		}
		joined <- err
	}()
	var err error
	select { // it waits until the first is out, or does not care
	case err = <-joined:
		f.free()
	case <-time.After(100 * time.Millisecond):
		f.free()
		err = <-joined
	}
	testkit.Must(t, err)
	for range 3 { // of what is paid after each beat
		testkit.Keep(t, s, c, store.Held)
		time.Sleep(lastingTTL / 3)
	}
	testkit.Join(t, s, &next, store.Waiting)
}

// Who asks again where he stands keeps his place, whatever he has seen meanwhile.
func TestJoinAgainKeepsPlace(t *testing.T) {
	t.Parallel()
	_, s := newServer(t, "")
	c := testkit.Held(t, s, claim("a"))
	ticket := c.Ticket
	c.Floor = ticket + 1000
	testkit.Join(t, s, &c, store.Held)
	if c.Ticket != ticket {
		t.Errorf("its ticket was %d and is %d", ticket, c.Ticket)
	}
	testkit.Keep(t, s, c, store.Held)
}

// A claim that may not stand, and cannot be taken out, is no final error: nobody would care for it.
func TestNotTakenOutIsNotFinal(t *testing.T) {
	t.Parallel()
	server, f, s := newFerry(t, lastingTTL)
	other := openAt(t, "etcd://"+server.Addr())
	holder, mad := claim("a"), claim("a")
	mad.Demand = store.Demand{Kind: store.Semaphore, Units: 1, Limit: 2}
	testkit.Join(t, other, &holder, store.Held)
	f.decide(func(r *etcdserverpb.TxnRequest) fate {
		if deletes(r) || voids(r) {
			return denied
		}
		return delivered
	})
	got, err := s.Join(t.Context(), mad)
	if err == nil || store.Final(err) {
		t.Errorf("a Join that could not be taken back: %v and %v", got.State, err)
	}
	f.free()
	testkit.Await(t, "it is taken out", func() bool { return testkit.Length(t, s, "a") == 1 })
}

// An etcd that was restored from a backup has a lower revision. What it does not have is gone, and not old news.
func TestRestoredServer(t *testing.T) {
	t.Parallel()
	server, f, s := newFerry(t, etcdstore.DefaultTTL)
	c, next := claim("a"), claim("a")
	testkit.Join(t, s, &c, store.Held)
	_, err := server.Client(t).Delete(t.Context(), etcdstore.KeyOf(s, c))
	testkit.Must(t, err)
	f.mu.Lock()
	f.back = 1000
	f.mu.Unlock()
	testkit.Keep(t, s, c, store.Gone)
	f.mu.Lock()
	f.back = 0
	f.mu.Unlock()
	testkit.Join(t, s, &next, store.Held)
}

// A key may be another claim's by now, behind who waits for the one that had it.
func TestBlockerComesBackBehind(t *testing.T) {
	t.Parallel()
	server := servers.Etcd(t)
	s, other := openAt(t, "etcd://"+server.Addr()), openAt(t, "etcd://"+server.Addr())
	for name, units := range map[string]int32{"writer": store.MaxReaders, "reader": 1} {
		t.Run(name, func(t *testing.T) {
			holder, c := claim(name), claim(name)
			c.Units = units
			testkit.Join(t, other, &holder, store.Held)
			testkit.Join(t, s, &c, store.Waiting)
			etcdstore.Deafen(s)
			client, key := server.Client(t), etcdstore.KeyOf(other, holder)
			kv, err := client.Get(t.Context(), key)
			testkit.Must(t, err)
			if _, err = client.Delete(t.Context(), key); err == nil {
				_, err = client.Put(t.Context(), key, string(kv.Kvs[0].Value))
			}
			testkit.Must(t, err)
			testkit.Keep(t, s, c, store.Held)
		})
	}
}

// A claim that was taken out unnoticed and joins again watches nothing of before.
func TestJoinAgainWatchesOnce(t *testing.T) {
	t.Parallel()
	server, s := newServer(t, "")
	c := testkit.Held(t, s, claim("a"))
	testkit.Await(t, "its key is watched", func() bool { return etcdstore.Watches(s) == 1 })
	etcdstore.Deafen(s)
	_, err := server.Client(t).Delete(t.Context(), etcdstore.KeyOf(s, c))
	testkit.Must(t, err)
	testkit.Join(t, s, &c, store.Held)
	testkit.Leave(t, s, c)
	if n := etcdstore.Watches(s); n != 0 {
		t.Errorf("%d watches are left", n)
	}
}

// A store that is being closed begins nothing.
func TestCloseWhileJoining(t *testing.T) {
	t.Parallel()
	server := servers.Etcd(t)
	f := &ferry{}
	var revoked func()
	revoking := func(ctx context.Context, method string, request, reply any, conn *grpc.ClientConn,
		invoke grpc.UnaryInvoker, options ...grpc.CallOption) error {
		err := invoke(ctx, method, request, reply, conn, options...)
		if strings.HasSuffix(method, "/LeaseRevoke") {
			revoked()
		}
		return err
	}
	here := []string{server.Addr()}
	s, err := etcdstore.OpenThrough(t.Context(), here, here, "", etcdstore.DefaultTTL,
		grpc.WithChainUnaryInterceptor(revoking, f.intercept))
	testkit.Must(t, err)
	underWay, joined := make(chan struct{}), make(chan error, 1)
	f.set(func(nth int) fate {
		if nth == 1 {
			close(underWay)
			return detained
		}
		return delivered
	})
	go func() {
		got, err := s.Join(t.Context(), claim("a"))
		if err == nil {
			err = fmt.Errorf("it is %v", got.State)
		}
		joined <- err
	}()
	<-underWay
	revoked = func() {
		f.free()
		if err := <-joined; !errors.Is(err, store.ErrClosed) {
			t.Errorf("Join in a store that is being closed: %v", err)
		}
	}
	testkit.Check(t, s.Close())
	leases, err := server.Client(t).Leases(t.Context())
	if err != nil || len(leases.Leases) != 0 {
		t.Errorf("%d leases are left, %v", len(leases.Leases), err)
	}
}

// Those who give up at the same time share one new epoch: with one for each, nobody else of their client would get a
// Join through.
func TestGivingUpTogether(t *testing.T) {
	_, f, s := newFerry(t, etcdstore.DefaultTTL)
	claims := make([]store.Claim, 20)
	f.decide(func(r *etcdserverpb.TxnRequest) fate {
		if joins(r) {
			return unanswered
		}
		return delivered
	})
	for i := range claims {
		claims[i] = claim("a")
		if got, err := s.Join(t.Context(), claims[i]); err == nil {
			t.Fatalf("Join without an answer says %v", got.State)
		}
	}
	voided, first := 0, make(chan struct{}, len(claims))
	f.decide(func(r *etcdserverpb.TxnRequest) fate {
		if !voids(r) {
			return delivered
		}
		voided++
		first <- struct{}{}
		return detained
	})
	var leaving sync.WaitGroup
	leaving.Go(func() { testkit.Leave(t, s, claims[0]) })
	<-first
	for _, c := range claims[1:] {
		leaving.Go(func() { testkit.Leave(t, s, c) })
	}
	time.Sleep(50 * time.Millisecond) // they either wait for the first, or do not
	f.free()
	leaving.Wait()
	if n := testkit.Length(t, s, "a"); n != 0 || voided > 2 {
		t.Errorf("%d claims stand, after %d epochs", n, voided)
	}
}

// A Join that lands after its Leave is void.
func TestJoinLandsAfterItsLeave(t *testing.T) {
	t.Parallel()
	_, f, s := newFerry(t, etcdstore.DefaultTTL)
	c := claim("a")
	f.next(stranded, stranded)
	if got, err := s.Join(t.Context(), c); err == nil {
		t.Fatalf("Join without an answer says %v", got.State)
	}
	testkit.Leave(t, s, c)
	f.land(t)
	testkit.CheckLength(t, s, "a", 0)
}
