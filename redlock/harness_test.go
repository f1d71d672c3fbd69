package redlock_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/servers"
	"github.com/holdfast-go/holdfast/internal/testkit"
	"github.com/holdfast-go/holdfast/lab/proxy"
	"github.com/holdfast-go/holdfast/redlock"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/storetest"
)

func TestStore(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t testing.TB) storetest.Harness { return newFleet(t, 5) })
}

// TestStoreOnValkey is some rules of the suite, with five masters of Valkey.
func TestStoreOnValkey(t *testing.T) {
	t.Parallel()
	start := func(t testing.TB) storetest.Harness { return newFleet(t, 5, servers.Valkey()) }
	storetest.RunSome(t, start, "exclusion", "order", "floor")
}

// TestStoreWithTwoDown is the suite while two of five nodes are down.
func TestStoreWithTwoDown(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t testing.TB) storetest.Harness {
		f := newFleet(t, 5)
		for _, i := range []int{1, 4} {
			f.kill(i)
		}
		return f
	})
}

// A fleet is the masters of one deployment, with a hand on their switches.
type fleet struct {
	t     testing.TB
	nodes []*servers.RedisServer
	down  map[int]bool
	query string // of its URL
}

// fleetTimeout is how long a node may take to answer: nearly the ttl of the suite. All share two cores, with other
// tests too.
const fleetTimeout = 900 * time.Millisecond

// calm is of a deployment where nothing expires while a test sets its scene, and no node is late because the machine
// is busy.
const calm = "max-ttl=1m&node-timeout=20s"

// newCalmFleet starts so many masters of such a deployment, and marks them.
func newCalmFleet(t testing.TB, count int, options ...servers.Option) *fleet {
	t.Helper()
	f := newFreshFleet(t, count, options...)
	f.query = calm
	f.init()
	return f
}

// newFleet starts so many masters and marks them.
func newFleet(t testing.TB, count int, options ...servers.Option) *fleet {
	t.Helper()
	f := newFreshFleet(t, count, options...)
	f.init()
	return f
}

// newFreshFleet starts so many masters.
func newFreshFleet(t testing.TB, count int, options ...servers.Option) *fleet {
	t.Helper()
	f := &fleet{
		t:     t,
		nodes: make([]*servers.RedisServer, count),
		down:  map[int]bool{},
		query: fmt.Sprintf("node-timeout=%v&max-ttl=4s", fleetTimeout),
	}
	for i := range f.nodes {
		f.nodes[i] = servers.Redis(t, options...)
	}
	return f
}

// init marks fresh nodes as an operator does: again if one did not answer in time, as on a busy machine.
func (f *fleet) init() {
	f.t.Helper()
	for deadline := time.Now().Add(30 * time.Second); ; {
		health, err := redlock.Init(f.t.Context(), f.url(""))
		if err == nil && allVote(health) {
			return
		}
		if time.Now().After(deadline) {
			f.t.Fatalf("%+v, %v", health, err)
		}
	}
}

func allVote(health []redlock.NodeHealth) bool {
	return !slices.ContainsFunc(health, func(h redlock.NodeHealth) bool { return h.State != redlock.Voting })
}

func (f *fleet) addresses() []string { return addressesOf(f.nodes) }

func addressesOf(nodes []*servers.RedisServer) []string {
	all := make([]string, len(nodes))
	for i, n := range nodes {
		all[i] = n.Addr()
	}
	return all
}

// url returns the URL of the deployment with a prefix.
func (f *fleet) url(prefix string) string {
	raw := "redlock://" + strings.Join(f.addresses(), ",") + "?" + f.query
	if prefix != "" {
		raw += "&prefix=" + url.QueryEscape(prefix)
	}
	return raw
}

// silent is for tests in which nodes are down on purpose.
var silent = slog.New(slog.NewTextHandler(io.Discard, nil))

// Open gives each node a proxy, and ends a prefix with a separator: it is put before the name as it is.
func (f *fleet) Open(t testing.TB, prefix string) (store.Store, storetest.Link) {
	t.Helper()
	if prefix != "" {
		prefix += "|"
	}
	var up []string
	for i, address := range f.addresses() {
		if !f.down[i] {
			up = append(up, address)
		}
	}
	ways := testkit.NewWays(t, up, proxy.Classify(proxy.RESP2))
	s, err := redlock.OpenDetour(t.Context(), f.url(prefix), ways.Detour, redlock.WithLogger(silent))
	testkit.Must(t, err)
	return s, ways.Links()
}

// open opens the store without proxies.
func (f *fleet) open(t testing.TB, options ...redlock.Option) *redlock.Store {
	t.Helper()
	s, err := f.tryOpen(t, options...)
	testkit.Must(t, err)
	t.Cleanup(func() { s.Close() })
	return s
}

func (f *fleet) tryOpen(t testing.TB, options ...redlock.Option) (*redlock.Store, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	return redlock.Open(ctx, f.url(""), append([]redlock.Option{redlock.WithLogger(silent)}, options...)...)
}

func (f *fleet) kill(i int) {
	f.t.Helper()
	testkit.Must(f.t, f.nodes[i].Kill())
	f.down[i] = true
}

// pause makes nodes stand still until the end of the test, or until resume.
func (f *fleet) pause(nodes ...*servers.RedisServer) (resume func()) {
	f.t.Helper()
	resume = func() {
		for _, n := range nodes {
			testkit.Must(f.t, n.Continue())
		}
	}
	f.t.Cleanup(resume)
	for _, n := range nodes {
		testkit.Must(f.t, n.Pause())
	}
	return resume
}

func (f *fleet) Advance(d time.Duration) { time.Sleep(d) }

// each does something at every node that is up, at once.
func (f *fleet) each(do func(i int, n *servers.RedisServer) error) error {
	errs := make([]error, len(f.nodes))
	var all sync.WaitGroup
	for i, n := range f.nodes {
		if !f.down[i] {
			all.Go(func() { errs[i] = do(i, n) })
		}
	}
	all.Wait()
	return errors.Join(errs...)
}

// Restart restarts all nodes that are up: as planned, with their data and trusted to keep it, or without. Then they
// serve their quarantine, and the clients that use them give them their vote back, all together if nobody votes any
// more.
func (f *fleet) Restart(keepData bool) error {
	err := f.each(func(_ int, n *servers.RedisServer) error {
		if keepData {
			if _, err := redlock.Trust(f.t.Context(), f.url(""), n.Addr()); err != nil {
				return err
			}
		}
		return n.Restart(keepData)
	})
	if err == nil && !keepData {
		err = f.serve()
	}
	return err
}

// serve begins the quarantine of all nodes, and waits until it is served.
func (f *fleet) serve() error {
	s, err := f.tryOpen(f.t)
	if err != nil {
		return err
	}
	defer s.Close()
	c := briefClaimOf("quarantine")
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(100 * time.Millisecond) {
		if _, err = s.Join(f.t.Context(), c); err == nil {
			err = s.Leave(f.t.Context(), c)
		}
		if err == nil || time.Now().After(deadline) {
			return err
		}
	}
}

// briefClaimOf is claimOf for a deployment with a short max-ttl.
func briefClaimOf(name string) store.Claim {
	c := claimOf(name)
	c.TTL = 4 * time.Second
	return c
}

// claimOf is a claim of a mutex. What it holds it holds for as long as a test takes.
func claimOf(name string) store.Claim { return testkit.Claim(name, time.Minute) }

// hold joins, which must hold.
func hold(t testing.TB, s store.Store, c store.Claim) store.Status {
	t.Helper()
	return testkit.Join(t, s, &c, store.Held)
}

// Erase does what an operator has to do: a key that is only deleted is set again by the next renewal. Not all nodes
// need have the key already: a lock is held when a majority has it.
func (f *fleet) Erase(name string, id store.ID) error {
	var mu sync.Mutex
	held := ""
	err := f.each(func(_ int, n *servers.RedisServer) error {
		value, err := n.Do("GET", name)
		text, _ := value.(string)
		if text, _, _ = strings.Cut(text, " ticket "); strings.HasPrefix(text, "holdfast "+id.String()+" ") {
			mu.Lock()
			defer mu.Unlock()
			held = text
		}
		return err
	})
	if err == nil && held == "" {
		err = fmt.Errorf("%q is not held by %v", name, id)
	}
	if err != nil {
		return err
	}
	return f.each(func(_ int, n *servers.RedisServer) error {
		if _, err := n.Do("SET", redlock.LeftPrefix+held, "", "PX", "2000"); err != nil {
			return err
		}
		_, err := n.Do("DEL", name)
		return err
	})
}

// Residue counts keys, and tombstones.
func (f *fleet) Residue(name string) (int, error) {
	var mu sync.Mutex
	total := 0
	err := f.each(func(_ int, n *servers.RedisServer) error {
		keys, err := n.Do("EXISTS", name)
		if err != nil {
			return err
		}
		left, err := n.Do("KEYS", redlock.LeftPrefix+"*")
		if err != nil {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		total += int(keys.(int64)) + len(left.([]any))
		return nil
	})
	return total, err
}

// PlantNewer cannot: the key of a lock has no version. The record has one: see TestNewerRecord.
func (f *fleet) PlantNewer(string) error { return errors.ErrUnsupported }
