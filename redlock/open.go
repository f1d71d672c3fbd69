package redlock

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/holdfast-go/holdfast/internal/rediskey"
	"github.com/holdfast-go/holdfast/internal/rediswire"
	"github.com/holdfast-go/holdfast/redlock/internal/vote"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/frame"
)

func init() {
	store.Register("redlock", openURL)
	store.Register("redlocks", openURL)
}

// retryWindow is the time over which the retries of waiters are spread when a lock is released: about two round trips.
const retryWindow = 2 * time.Millisecond

// Open opens the deployment at a URL, as the package documentation describes it, with connections of its own. Options
// are applied after the parameters of the URL.
//
// It returns a [store.Fault] if fewer than a majority of the nodes can be reached, and a final one if a node that can
// be reached is not suitable. No error of Open shows a password.
func Open(ctx context.Context, url string, options ...Option) (*Store, error) {
	at, err := store.ParseLocation(url)
	if err != nil {
		return nil, err
	}
	return openLocation(ctx, at, options...)
}

// openURL is the function that is registered for the URLs of this package.
func openURL(ctx context.Context, at store.Location) (store.Store, error) {
	s, err := openLocation(ctx, at)
	if err != nil {
		return nil, err
	}
	return s, nil
}

func openLocation(ctx context.Context, at store.Location, options ...Option) (*Store, error) {
	s, err := connectLater(at, options...)
	if err != nil {
		return nil, err
	}
	return s.finishOpen(ctx)
}

// New returns a store over clients of rueidis, one for each node. They remain the caller's: Close of the store does not
// close them. Each client must lead to one server. The store takes two connections from each client's blocking pool.
//
// It returns a [store.Fault] if fewer than a majority of the nodes can be reached, and a final one if a node that can
// be reached is not suitable.
func New(ctx context.Context, clients []rueidis.Client, options ...Option) (*Store, error) {
	set := settings{maxTTL: defaultMaxTTL}
	set.apply(options)
	if err := set.check(); err != nil {
		return nil, err
	}
	if set.credentials != nil {
		return nil, errors.New("holdfast: WithCredentials is for a store that makes its own connections; " +
			"a client has credentials of its own")
	}
	if err := checkCount(len(clients)); err != nil {
		return nil, err
	}
	addresses := make([]string, len(clients))
	for i, client := range clients {
		addresses[i] = strings.Join(slices.Sorted(maps.Keys(client.Nodes())), "+")
		if client.Mode() != rueidis.ClientModeStandalone {
			return nil, fmt.Errorf("%w: the client for %s follows a cluster or Sentinel; a node is one master",
				store.ErrUnsupported, addresses[i])
		}
	}
	s := newStore(addresses, set)
	for i, client := range clients {
		s.nodes[i] = s.newNode(i, addresses[i], client, false)
	}
	return s.finishOpen(ctx)
}

// openForOperator returns a store that connects when it is used, for functions that operators call.
func openForOperator(url string, options []Option) (*Store, error) {
	at, err := store.ParseLocation(url)
	if err != nil {
		return nil, err
	}
	s, err := connectLater(at, options...)
	if err == nil {
		s.admission = nil // it gives no node its vote back by itself
		// It waits for all nodes, not only for a majority.
		s.rules.NodeTimeout = max(s.rules.NodeTimeout, requestTimeout)
	}
	return s, err
}

// connectLater returns a store with clients of its own, which connects when it is used.
func connectLater(at store.Location, more ...Option) (*Store, error) {
	options, set, err := parse(at, more...)
	if err != nil {
		return nil, err
	}
	s := newStore(options.InitAddress, set)
	rediswire.LogIn(s.frame.Life(), &options, s.credentials, s.frame)
	for i, address := range options.InitAddress {
		options.InitAddress = []string{address}
		client, err := rediswire.NewClient(s.frame.Life(), rediswire.DialTimeout, options, s.way.Dial)
		if err != nil {
			s.nodes = s.nodes[:i]
			s.Close() //nolint:errcheck // it returns none
			return nil, err
		}
		s.nodes[i] = s.newNode(i, address, client, true)
	}
	return s, nil
}

func newStore(addresses []string, set settings) *Store {
	set.logger = cmp.Or(set.logger, slog.Default())
	s := &Store{
		settings: set,
		frame:    frame.New(frame.Config{Name: "redlock at " + strings.Join(addresses, ","), Drift: frame.Clocks}),
		rules: vote.Rules{
			Nodes: len(addresses), MaxTTL: set.maxTTL, Unsaved: set.unsaved, NodeTimeout: set.timeout,
			DriftPart: frame.Clocks.Part, Retry: retryWindow, Chance: rand.N[time.Duration],
		},
		nodes:         make([]*node, len(addresses)),
		began:         time.Now().Add(-time.Second), // 0 is for no time at all
		subscriptions: rediskey.NewSubscriptions(len(addresses), freedTopic),
		claims:        map[claimKey]*localClaim{},
		conns:         make([]*connection, len(addresses)),
		idle:          make(chan struct{}, 1),
		batches:       make(chan []nodeRequest),
		joins:         throttle{limit: maxJoins},
	}
	s.logger = s.logger.With("store", s.frame.Name)
	s.admission = newAdmission(s)
	return s
}

// finishOpen connects, checks the nodes, and subscribes.
func (s *Store) finishOpen(ctx context.Context) (*Store, error) {
	err := s.prepare(ctx)
	if err != nil {
		s.Close() //nolint:errcheck // it has none
		return nil, err
	}
	for _, n := range s.nodes {
		s.frame.Go(func() { s.stayConnected(n) })
		s.frame.Go(func() { s.listen(n) })
	}
	return s, nil
}

const (
	openTimeout = 10 * time.Second
	lateNodes   = 500 * time.Millisecond // how long Open waits for the rest when a majority has responded
)

func (s *Store) prepare(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := s.checkNodes(ctx); err != nil {
		return err
	}
	if err := s.identify(ctx); err != nil {
		return err
	}
	return s.checkVotes(ctx)
}

// checkNodes connects to all nodes and checks whether they are suitable. Nodes that cannot be reached are not an error,
// as long as there is a majority without them.
func (s *Store) checkNodes(ctx context.Context) error {
	began := time.Now()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	bad, errs := gatherWithin(ctx, s, openTimeout, lateNodes, func(ctx context.Context, n *node) (bool, error) {
		bad, err := s.connect(ctx, n)
		if bad {
			cancel() // the others cannot change that
		}
		return bad, err
	})
	var here nodeSet
	said := make([]vote.Answer, len(s.nodes))
	for i, n := range s.nodes {
		_, silent := errors.AsType[silence](errs[i])
		switch {
		case bad[i]:
			return &store.Fault{Store: s.frame.Name, Final: true, Err: s.named(n, errs[i])}
		case errs[i] == nil:
			here |= 1 << i
		case !silent:
			said[i].Err = errs[i]
		}
	}
	switch {
	case here.count() >= s.rules.Majority():
	case errors.Is(ctx.Err(), context.Canceled):
		return ctx.Err()
	default:
		return s.noMajority(said, here, 0, time.Since(began).Round(10*time.Millisecond))
	}
	for i, n := range s.nodes {
		if !here.has(i) {
			why, _ := s.reason(&said[i], lateNodes)
			s.warn(n, "a node cannot be reached", "why", why)
		}
	}
	return nil
}

// connect connects to a node. bad reports that it was reached and is not suitable.
func (s *Store) connect(ctx context.Context, n *node) (bad bool, err error) {
	w, err := n.conn(ctx)
	if err != nil {
		return errors.Is(err, errUnusable), err
	}
	n.checked.Store(true)
	err = s.checkRisks(ctx, n, w)
	return err != nil, err
}

// checkVotes returns an error if too few nodes belong to this deployment, and logs warnings if nodes do not vote.
func (s *Store) checkVotes(ctx context.Context) error {
	var all []vote.Answer
	for {
		news := s.admission.nextVote()
		all = s.requestAll(ctx, vote.Request{Op: vote.Look})
		if err := s.checkMajority(ctx, all); err != nil {
			return err
		}
		if !slices.ContainsFunc(all, func(a vote.Answer) bool { return a.NeedsMark() }) || !s.awaitVote(ctx, news) {
			break
		}
	}
	var votes nodeSet
	for i := range all {
		switch {
		case all[i].Votes:
			votes |= 1 << i
		case all[i].Code != vote.Failed:
			why, _ := s.reason(&all[i], requestTimeout)
			s.warn(s.nodes[i], "a node has no vote", "why", why)
		}
	}
	if votes.count() < s.rules.Majority() {
		s.logger.Warn("holdfast: no lock can be acquired for now", "why", s.noMajority(all, votes, 0, requestTimeout))
	}
	return nil
}
