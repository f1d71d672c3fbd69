package testkit

import (
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
)

// A Node is a server of a Cluster.
type Node interface {
	Pause() error
	Continue() error
	Kill() error
	Start() error
	Restart(keepData bool) error
	AwaitHealthy() error
}

// Nodes returns servers as Nodes.
func Nodes[N Node](servers []N) []Node { return mapped(servers, func(s N) Node { return s }) }

// forAll calls do for each node, until one fails.
func forAll(nodes []Node, do func(Node) error) error {
	for _, node := range nodes {
		if err := do(node); err != nil {
			return err
		}
	}
	return nil
}

// A Cluster is the servers of a store whose claims end with a session of their client. The same faults are done to all
// such stores.
type Cluster struct {
	Scheme   string // of the store
	Believer string // the scheme of a Believer of the store

	// SessionTTL is the ttl of the sessions of a crowd.
	SessionTTL time.Duration
	// LastingTTL is the ttl of sessions that must not expire before something happens to them, and expire then. On a
	// busy machine a renewal may be late.
	LastingTTL time.Duration
	// LongTTL is the ttl of sessions that must not expire during a test: a claim that is gone was deleted.
	LongTTL time.Duration
	// Expiry is how long a fault lasts so that no session of a crowd outlives it.
	Expiry time.Duration

	Endpoints []string
	Nodes     []Node

	// Leader returns the node that leads now.
	Leader func() (Node, error)
	// URL returns the URL of a store with these addresses, whose session has this ttl.
	URL func(scheme string, ttl time.Duration, addresses ...string) string
	// Queue returns the keys of the claims in a queue in their order, as the servers have them.
	Queue func(t testing.TB, name string) []string
	// Left returns what the servers have of claims and sessions.
	Left func(t testing.TB) []string
	// Restart kills all nodes and starts them again.
	Restart func(keepData bool) error
	// Delete deletes the key of a claim, as an operator does.
	Delete func(t testing.TB, key string)
}

// SoonAfter bounds what must happen without waiting for a ttl or a renewal. It is less than a third of the LongTTL of
// every Cluster.
const SoonAfter = 5 * time.Second

// RestartEach kills the nodes and starts them again, each when the one before is healthy.
func (c *Cluster) RestartEach() error {
	return forAll(c.Nodes, func(node Node) error {
		if err := node.Restart(true); err != nil {
			return err
		}
		return node.AwaitHealthy()
	})
}

// A Witness is the journal of one lock in a cluster.
type Witness struct {
	*Journal
	Cluster *Cluster
}

// NewWitness returns the journal of a lock that is named after the test, with words before the name for further locks.
func (c *Cluster) NewWitness(t *testing.T, words ...string) *Witness {
	t.Helper()
	return &Witness{NewJournal(t, Evidence(t), strings.Join(append(words, t.Name()), " ")), c}
}

// URL returns the URL of a store that knows all nodes, or these addresses.
func (w *Witness) URL(scheme string, ttl time.Duration, addresses ...string) string {
	if len(addresses) == 0 {
		addresses = w.Cluster.Endpoints
	}
	return w.Cluster.URL(scheme, ttl, addresses...)
}

// OpenAt opens a client that knows all nodes, or these addresses.
func (w *Witness) OpenAt(scheme string, ttl time.Duration, addresses ...string) *holdfast.Client {
	w.Helper()
	return w.Open(w.URL(scheme, ttl, addresses...))
}

// OpenLasting is OpenAt for the store itself, with a session of LastingTTL.
func (w *Witness) OpenLasting(addresses ...string) *holdfast.Client {
	w.Helper()
	return w.OpenAt(w.Cluster.Scheme, w.Cluster.LastingTTL, addresses...)
}

// OpenLong is OpenAt for the store itself, with a session of LongTTL.
func (w *Witness) OpenLong(addresses ...string) *holdfast.Client {
	w.Helper()
	return w.OpenAt(w.Cluster.Scheme, w.Cluster.LongTTL, addresses...)
}

// Queue returns the keys of the claims in the lock's queue.
func (w *Witness) Queue() []string {
	w.Helper()
	return w.Cluster.Queue(w, w.Mutex)
}

// WaitBehind has a client wait for the lock, and returns when its claim is in the queue behind n others.
func (w *Witness) WaitBehind(n int, locks *holdfast.Client) *Waiter {
	w.Helper()
	next := w.Wait(locks)
	Await(w, "the claim waits in the queue", func() bool { return len(w.Queue()) == n+1 })
	return next
}

// MustGrantSoon demands that a waiter is granted the lock at once, and excludes the holders before it.
func (w *Witness) MustGrantSoon(next *Waiter, before ...*Hold) {
	w.Helper()
	second, ok := next.GrantedIn(SoonAfter)
	if !ok {
		w.Fatalf("the lock is free, and the waiter was not notified within %v", SoonAfter)
	}
	w.MustExclude(append(before, second)...)
}

// MustHold demands that a lock is held, and not granted to the next waiter.
func (w *Witness) MustHold(held *Hold, next *Waiter) {
	w.Helper()
	if _, early := next.GrantedIn(0); early || !held.Believed() {
		w.Errorf("the lock was not held all the time: granted to the next waiter is %v, and the lease %v", early,
			held.Err())
	}
}
