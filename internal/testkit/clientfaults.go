package testkit

import (
	"maps"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/lab/proxy"
)

// silences are ways to cut a client off without an error: no bytes arrive.
var silences = map[string]func(Ways) (end func()){
	"all is lost":        func(w Ways) func() { return w.Silence(proxy.All) },
	"all is late":        func(w Ways) func() { return w.Hold(proxy.All) },
	"requests are late":  func(w Ways) func() { return w.Hold(proxy.Requests) },
	"responses are late": func(w Ways) func() { return w.Hold(proxy.Down) },
}

// TestCutOff cuts a holder off from all servers for longer than its session, in each of the ways that are known here
// and by more. Its context ends before the next claim is granted the lock. When the holder is connected again, its
// lease stays lost, what it sent meanwhile takes nothing from the next holder, and it acquires the lock again in its
// turn. A store that does not notice is cut off too, and the checkers see it.
func (c *Cluster) TestCutOff(t *testing.T, more map[string]func(Ways) (end func())) {
	t.Helper()
	faults := maps.Clone(silences)
	maps.Copy(faults, more)
	for name, begin := range faults {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := c.NewWitness(t)
			ways := NewWays(t, c.Endpoints)
			locks := w.OpenLasting(ways.Addrs()...)
			first := w.Take(locks)
			next := w.WaitBehind(1, w.OpenLasting())
			end := begin(ways)
			second := next.Granted()
			w.MustLose(first, SoonAfter, "")
			end()
			again := w.WaitBehind(1, locks)
			if !second.Believed() {
				t.Errorf("the next holder's lease is %v", second.Err())
			}
			w.MustLose(first, SoonAfter, "")
			w.Release(second)
			w.MustExclude(first, second, again.Granted())
		})
	}
	t.Run("a believer is seen", func(t *testing.T) {
		t.Parallel()
		w := c.NewWitness(t)
		ways := NewWays(t, c.Endpoints)
		first := w.Take(w.OpenAt(c.Believer, c.LastingTTL, ways.Addrs()...))
		next := w.WaitBehind(1, w.OpenLasting())
		defer ways.Silence(proxy.All)()
		w.MustOverlap(next.Granted(), first)
	})
}

// A Takeover is how long the lock of a process that was killed stays taken, at least and at most. Also is done after
// the process was killed; nil: nothing.
type Takeover struct {
	TTL         time.Duration
	Least, Most time.Duration
	Also        func()
}

// TestKilledHolder kills a process that holds the lock. The next claim is granted it when the session has expired.
func (w *Witness) TestKilledHolder(takeover Takeover) {
	w.Helper()
	h := w.StartHolder(w.URL(w.Cluster.Scheme, takeover.TTL))
	next := w.WaitBehind(1, w.OpenAt(w.Cluster.Scheme, takeover.TTL))
	killed := time.Now()
	h.Kill()
	if takeover.Also != nil {
		takeover.Also()
	}
	second := next.Granted()
	took := time.Since(killed)
	w.Logf("with a ttl of %v, granted %v after the holder was killed", takeover.TTL, took)
	if took < takeover.Least || took > takeover.Most {
		w.Errorf("the lock of a killed holder was free after %v, want %v to %v", took, takeover.Least, takeover.Most)
	}
	w.MustExclude(second)
}

// Promised returns how long after a holder's death the next claim is granted at worst, according to Abilities.
func (w *Witness) Promised(ttl time.Duration) time.Duration {
	w.Helper()
	abilities := Open(w, w.URL(w.Cluster.Scheme, ttl)).Abilities()
	return time.Duration(abilities.TakeoverTTLs)*ttl + abilities.TakeoverPlus
}

// TestRestartWhileWaiting restarts the servers one after another while a claim waits. The lock stays held. When it is
// released, the waiter is notified at once, and not by its next renewal.
func (c *Cluster) TestRestartWhileWaiting(t *testing.T) {
	t.Helper()
	w := c.NewWitness(t)
	first := w.Take(w.OpenLong())
	next := w.WaitBehind(1, w.OpenLong())
	w.Must(c.RestartEach())
	w.MustHold(first, next)
	w.Release(first)
	w.MustGrantSoon(next, first)
}

// TestHeldClaimDeleted has an operator delete the key of a holder whose session lives on. The holder notices it within
// this time; its other lock stays. A store that does not read or listen is seen.
func (c *Cluster) TestHeldClaimDeleted(t *testing.T, ttl, within time.Duration) {
	t.Helper()
	t.Run("noticed", func(t *testing.T) {
		t.Parallel()
		w := c.NewWitness(t)
		locks := w.OpenAt(c.Scheme, ttl)
		other := Lock(t, locks, w.Mutex+" too")
		held := w.Take(locks)
		c.Delete(t, w.Queue()[0])
		w.MustLose(held, within, "")
		w.MustExclude(held, w.Take(w.OpenAt(c.Scheme, ttl)))
		if err := other.Err(); err != nil {
			t.Errorf("the client's other lock is lost: %v", err)
		}
		Unlock(t, other)
	})
	t.Run("a believer is seen", func(t *testing.T) {
		t.Parallel()
		w := c.NewWitness(t)
		held := w.Take(w.OpenAt(c.Believer, c.LongTTL))
		c.Delete(t, w.Queue()[0])
		w.MustOverlap(w.Take(w.OpenLong()), held)
	})
}

// TestWaitingClaimDeleted has an operator delete the key of a waiter. The waiter joins the queue again, behind the
// claims that were behind it, and is granted the lock in its turn.
func (c *Cluster) TestWaitingClaimDeleted(t *testing.T, ttl time.Duration) {
	t.Helper()
	w := c.NewWitness(t)
	first := w.Take(w.OpenAt(c.Scheme, ttl))
	deleted := w.WaitBehind(1, w.OpenAt(c.Scheme, ttl))
	behind := w.WaitBehind(2, w.OpenAt(c.Scheme, ttl))
	key := w.Queue()[1]
	c.Delete(t, key)
	Await(t, "the waiter has joined again", func() bool {
		queue := w.Queue()
		return len(queue) == 3 && queue[1] != key
	})
	w.MustHold(first, behind)
	w.Release(first)
	second, ok := behind.GrantedIn(SoonAfter)
	if !ok {
		t.Fatal("the waiter behind the one that was deleted is not granted the lock")
	}
	w.Release(second)
	w.MustGrantSoon(deleted, first, second)
}

// TestOldSession kills all servers for longer than a session, and starts them again: a new leader grants each session
// its whole ttl again. The client has begun another session by then, and finds a claim in the queue that it made
// itself. It waits until the servers have expired that. The servers are started when the lease is lost and after has
// returned.
func (c *Cluster) TestOldSession(t *testing.T, after func()) {
	t.Helper()
	w := c.NewWitness(t)
	locks := w.OpenLasting()
	held := w.Take(locks)
	old := w.Queue()[0]
	w.Must(forAll(c.Nodes, Node.Kill))
	w.MustLose(held, Patience, "")
	after()
	w.Must(forAll(c.Nodes, Node.Start))
	w.Must(forAll(c.Nodes, Node.AwaitHealthy))
	if queue := w.Queue(); len(queue) == 0 || queue[0] != old {
		t.Fatalf("the servers have not kept the old session: %v", queue)
	}
	again := w.Take(locks)
	if queue := w.Queue(); len(queue) != 1 || queue[0] == old {
		t.Errorf("the lock was granted while the queue is %v, and %s was the old session's", queue, old)
	}
	w.MustExclude(held, again)
}
