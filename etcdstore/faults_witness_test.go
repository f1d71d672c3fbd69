package etcdstore_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/etcdstore"
	"github.com/holdfast-go/holdfast/internal/servers"
	"github.com/holdfast-go/holdfast/lab/check"
	"github.com/holdfast-go/holdfast/lab/history"
)

// A witness writes down who believes to hold a lock, as a crowd does, while a test plays a schedule with nothing left to
// chance.
type witness struct {
	*testing.T
	cluster  *servers.EtcdServers
	client   *clientv3.Client // past all proxies
	name     string           // of the lock
	dir      string
	recorder *history.Recorder
	clients  map[*holdfast.Client]string // by name
}

// newWitness is for one lock, which has the test's name.
func newWitness(t *testing.T, cluster *servers.EtcdServers) *witness {
	t.Helper()
	w := &witness{T: t, cluster: cluster, client: cluster.Client(t), name: t.Name(), dir: evidence(t), clients: map[*holdfast.Client]string{}}
	var err error
	if w.recorder, err = history.Create(w.dir, "test"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := w.recorder.Close(); err != nil {
			t.Error(err)
		}
	})
	return w
}

func (w *witness) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

// open opens a client by URL, with a session that lasts for ttl.
func (w *witness) open(scheme string, endpoints []string, ttl time.Duration) *holdfast.Client {
	w.Helper()
	locks, err := holdfast.Open(w.Context(), storeURL(scheme, endpoints, ttl))
	w.must(err)
	return w.known(locks)
}

// openThrough opens a client with options of its connections.
func (w *witness) openThrough(endpoints []string, ttl time.Duration, options ...grpc.DialOption) *holdfast.Client {
	w.Helper()
	s, err := etcdstore.OpenThrough(w.Context(), w.cluster.Endpoints(), endpoints, "", ttl, options...)
	w.must(err)
	return w.known(holdfast.New(s))
}

func (w *witness) known(locks *holdfast.Client) *holdfast.Client {
	w.Cleanup(func() { locks.Close() })
	w.clients[locks] = fmt.Sprintf("client %d", len(w.clients)+1)
	return locks
}

// A testimony is what is being written down of a hold.
type testimony struct {
	*holdfast.Lease                 // nil: it is no lock of Holdfast's
	done            <-chan struct{} // of its context, asked for once
	belief          *history.Belief
	asking          sync.WaitGroup
}

// testify begins to write down that a client holds the lock, for as long as it is believed.
func (w *witness) testify(client string, token holdfast.Token, believed func() bool) (*testimony, error) {
	hold := history.Hold{Who: history.Who{Client: client}, Resource: w.name, Kind: history.Exclusive, Token: token}
	belief, ok := w.recorder.Begin(hold, believed)
	if !ok {
		return nil, errors.New("a lease that is over from its beginning")
	}
	held := &testimony{belief: belief}
	held.asking.Go(func() {
		for belief.Check() {
			time.Sleep(time.Millisecond)
		}
	})
	w.Cleanup(held.end)
	return held, nil
}

// end stops writing down.
func (held *testimony) end() {
	held.belief.End()
	held.asking.Wait()
}

// take waits for the lock.
func (w *witness) take(locks *holdfast.Client) *testimony {
	w.Helper()
	ctx, cancel := context.WithTimeout(w.Context(), faultPatience)
	defer cancel()
	held, err := w.tryTake(ctx, locks)
	w.must(err)
	return held
}

// tryTake is take for who may fail.
func (w *witness) tryTake(ctx context.Context, locks *holdfast.Client) (*testimony, error) {
	lease, err := locks.Mutex(w.name).Lock(ctx)
	if err != nil {
		return nil, err
	}
	within := lease.Context()
	held, err := w.testify(w.clients[locks], lease.Token(), func() bool { return within.Err() == nil })
	if err != nil {
		return nil, err
	}
	held.Lease, held.done = lease, within.Done()
	return held, nil
}

// A waiter is somebody who waits for the lock.
type waiter struct {
	*witness
	got chan *testimony
	err error // if got is closed
}

// wait has a client wait for the lock, behind so many.
func (w *witness) wait(locks *holdfast.Client, behind int) *waiter {
	w.Helper()
	next := &waiter{witness: w, got: make(chan *testimony, 1)}
	ctx, cancel := context.WithTimeout(w.Context(), faultPatience)
	go func() {
		defer cancel()
		held, err := w.tryTake(ctx, locks)
		if next.err = err; err != nil {
			close(next.got)
			return
		}
		next.got <- held
	}()
	await(w, "it waits in the line", func() bool { return len(w.line()) == behind+1 })
	return next
}

// granted waits until it has got the lock.
func (n *waiter) granted() *testimony {
	n.Helper()
	held, _ := n.grantedIn(faultPatience)
	if held == nil {
		n.Fatal("it is not granted the lock")
	}
	return held
}

// grantedIn waits until it has got the lock, for so long, and says whether it has.
func (n *waiter) grantedIn(d time.Duration) (*testimony, bool) {
	n.Helper()
	select {
	case held, ok := <-n.got:
		if !ok {
			n.Fatal(n.err)
		}
		return held, true
	case <-time.After(d):
		return nil, false
	}
}

// line is the claims in the lock's line, as etcd has them.
func (w *witness) line() (keys []string) {
	w.Helper()
	ctx, cancel := patience()
	defer cancel()
	answer, err := w.client.Get(ctx, etcdstore.LineKey(w.name), clientv3.WithPrefix(),
		clientv3.WithSort(clientv3.SortByCreateRevision, clientv3.SortAscend))
	w.must(err)
	for _, kv := range answer.Kvs {
		keys = append(keys, string(kv.Key))
	}
	return keys
}

func (w *witness) giveBack(held *testimony) {
	w.Helper()
	held.end()
	w.must(held.Unlock(w.Context()))
}

// mustLose demands that a lease was lost and that its context has told, which may take a moment after it is true.
func (w *witness) mustLose(held *testimony) {
	w.Helper()
	select {
	case <-held.done:
	case <-time.After(soon):
		w.Error("the lease is over, and those who wait for the end of its context are not told")
	}
	if err := held.Err(); !errors.Is(err, holdfast.ErrLost) {
		w.Errorf("the lease is %v, want %v", err, holdfast.ErrLost)
	}
	if held.belief.Check() {
		w.Error("its holder believes in it")
	}
}

// mustExclude ends the testimonies, and demands that no two were believed at once and that tokens rise.
func (w *witness) mustExclude(held ...*testimony) {
	w.Helper()
	overlaps, tokens := w.findings(held...)
	for _, finding := range append(overlaps, tokens...) {
		w.Error(finding)
	}
}

// mustOverlap ends the testimonies of a lock that is broken, and demands that the checkers see it.
func (w *witness) mustOverlap(held ...*testimony) {
	w.Helper()
	if overlaps, _ := w.findings(held...); len(overlaps) == 0 {
		w.Error("two hold at once, and nothing is found")
	}
}

func (w *witness) findings(held ...*testimony) (overlaps, tokens []check.Finding) {
	w.Helper()
	for _, h := range held {
		h.end()
	}
	holds, err := history.ReadDir(w.dir)
	w.must(err)
	return check.Overlap(holds), check.Tokens(holds)
}
