package redisstore

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/holdfast-go/holdfast/internal/rediswire"
)

const (
	sentinelTimeout = time.Second            // how long a sentinel may take to respond
	sentinelGrace   = 100 * time.Millisecond // how long the others may take when most have responded
)

var (
	errSwitched = errors.New("another server became the master meanwhile")
	errUnknown  = errors.New("it knows no master of this name")
	errBehind   = errors.New("it does not know of the last failover")
)

// sentinels is the topology of a master that sentinels watch. A store queries all of them for each new connection, and
// subscribes to all of them, so that it leaves a master that was replaced, even if that master is still alive and does
// not know of it.
//
// They may contradict each other: one that is cut off still names the old master. Each failover has a greater epoch
// than all before it, so the report with the greatest epoch is right.
type sentinels struct {
	*single
	master    string               // the name of the master that they watch
	options   rueidis.ClientOption // how to connect to them
	addresses []string
	changed   chan struct{} // holds a token when the master may have changed

	mu      sync.Mutex
	asked   int // the number of queries so far
	known   knownMaster
	tracked map[*masterConn]string // connections to masters, including those being made, with their addresses
}

// A knownMaster is the master as far as it is known.
type knownMaster struct {
	address string
	epoch   int64 // of the failover that made it the master
	asked   int   // the number of the query with this result
}

// newSentinels returns the topology of the master that these sentinels name. It does not connect yet.
func (b *base) newSentinels(options rueidis.ClientOption) *sentinels {
	own := options.Sentinel
	one := b.newSingle()
	one.failsOver = true
	return &sentinels{
		single:    one,
		master:    own.MasterSet,
		options:   rueidis.ClientOption{Username: own.Username, Password: own.Password, TLSConfig: own.TLSConfig},
		addresses: slices.Clone(options.InitAddress),
		changed:   make(chan struct{}, 1),
		tracked:   map[*masterConn]string{},
	}
}

// begin connects to the master, and starts to watch the sentinels.
func (s *sentinels) begin(ctx context.Context) error {
	err := s.single.begin(ctx)
	if err == nil {
		s.store.frame.Go(s.watch)
	}
	return err
}

// dial connects to the current master. It fails if another server becomes the master meanwhile.
func (s *sentinels) dial(ctx context.Context, _ string, config *tls.Config) (net.Conn, error) {
	address, err := s.locate(ctx)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	led := &masterConn{by: s, leave: cancel}
	if !s.track(led, address) {
		return nil, errSwitched
	}
	conn, err := s.store.way.Dial(ctx, address, config)
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, still := s.tracked[led]; !still {
		if err == nil {
			rediswire.Cut(conn)
		}
		return nil, errSwitched
	}
	if err != nil {
		delete(s.tracked, led)
		return nil, err
	}
	led.Conn, led.leave = conn, func() { rediswire.Cut(conn) }
	return led, nil
}

// A masterConn is a connection that ends when its server is no longer the master.
type masterConn struct {
	net.Conn
	by    *sentinels
	leave func() // ends the connection, or the attempt to make it
}

// NetConn returns the underlying connection.
func (c *masterConn) NetConn() net.Conn { return c.Conn }

// Close closes the connection.
func (c *masterConn) Close() error {
	c.by.mu.Lock()
	delete(c.by.tracked, c)
	c.by.mu.Unlock()
	return c.Conn.Close()
}

// track records the address of a connection, unless that is no longer the master.
func (s *sentinels) track(led *masterConn, address string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.known.address != address {
		return false
	}
	s.tracked[led] = address
	return true
}

// locate queries the sentinels for the address of the master.
func (s *sentinels) locate(ctx context.Context) (string, error) {
	s.mu.Lock()
	s.asked++
	question, epoch := s.asked, s.known.epoch
	s.mu.Unlock()
	said, lost := s.queryAll(ctx, epoch)
	return s.believe(question, said, lost)
}

// believe stores the latest report, unless a later one is known, and leaves every other master.
func (s *sentinels) believe(question int, said []masterReport, lost *unlocatedError) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.known.asked > question && (len(said) == 0 || latestReport(said).epoch <= s.known.epoch) {
		return s.known.address, nil // a later query had its result first, and knows at least as much
	}
	if len(said) == 0 {
		return "", lost
	}
	latest := latestReport(said)
	if latest.epoch < s.known.epoch && !s.isMajority(len(said)) {
		for _, behind := range said {
			lost.add(behind.sentinel, errBehind)
		}
		return "", lost
	}
	asked := max(question, s.known.asked)
	s.known = latest.knownMaster
	s.known.asked = asked
	for led, to := range s.tracked {
		if to != latest.address {
			delete(s.tracked, led)
			led.leave()
		}
	}
	return latest.address, nil
}

// isMajority reports whether n is more than half of the sentinels. A majority is believed even if there was a greater
// epoch before: the sentinels may have been set up again.
func (s *sentinels) isMajority(n int) bool { return 2*n > len(s.addresses) }

// A masterReport is the master by one sentinel.
type masterReport struct {
	sentinel string
	knownMaster
}

// latestReport returns the report with the greatest epoch; in a tie the one that more sentinels agree on, or the first.
func latestReport(said []masterReport) masterReport {
	votes := map[string]int{}
	for _, one := range said {
		votes[one.address]++
	}
	latest := said[0]
	for _, one := range said[1:] {
		if one.epoch > latest.epoch || one.epoch == latest.epoch && votes[one.address] > votes[latest.address] {
			latest = one
		}
	}
	return latest
}

// queryAll queries all sentinels at once. One that does not respond delays the result only briefly, unless no other
// knows of the failover with this epoch.
func (s *sentinels) queryAll(ctx context.Context, epoch int64) (said []masterReport, lost *unlocatedError) {
	lost = newUnlocated(fmt.Sprintf("no sentinel names a master called %q", s.master), "sentinel ", explain)
	enough := func(said []masterReport) time.Duration {
		if s.isMajority(len(said)) && latestReport(said).epoch >= epoch {
			return sentinelGrace
		}
		return 0
	}
	return queryAll(ctx, s.store.frame, sentinelTimeout, lost, s.addresses, s.query, enough), lost
}

// query queries a sentinel for the master.
func (s *sentinels) query(ctx context.Context, address string) (said masterReport, err error) {
	said.sentinel = address
	err = s.with(ctx, address, func(conn rueidis.DedicatedClient) error {
		answers := conn.DoMulti(ctx,
			// The epoch comes first: an address may be newer than its epoch, and never older. During a failover MASTER
			// itself still has the old address.
			conn.B().Arbitrary("SENTINEL", "MASTER").Args(s.master).Build(),
			conn.B().SentinelGetMasterAddrByName().Master(s.master).Build())
		named, err := answers[1].AsStrSlice()
		switch {
		case rueidis.IsRedisNil(err):
			return errUnknown
		case err != nil:
			return err
		case len(named) != 2:
			return fmt.Errorf("%w: %q", rediswire.ErrShape, named)
		}
		about, err := answers[0].AsStrMap()
		if err != nil {
			return err
		}
		said.address = net.JoinHostPort(named[0], named[1])
		if said.epoch, err = strconv.ParseInt(about["config-epoch"], 10, 64); err != nil {
			return fmt.Errorf("%w: its epoch is %q", rediswire.ErrShape, about["config-epoch"])
		}
		return nil
	})
	return said, err
}

// with connects to a sentinel for the duration of use. The connection ends with life.
func (s *sentinels) with(life context.Context, address string, use func(rueidis.DedicatedClient) error) error {
	options := s.options
	options.InitAddress = []string{address}
	client, err := rediswire.NewClient(life, sentinelTimeout, options, s.store.way.Dial)
	if err != nil {
		return err
	}
	defer client.Close()
	conn, _ := client.Dedicate()
	defer conn.Close()
	return use(conn)
}

// watch subscribes to all sentinels until the store is closed, and queries all of them when one publishes a change.
func (s *sentinels) watch() {
	life := s.store.frame.Life()
	for _, address := range s.addresses {
		s.store.frame.Go(func() {
			for again := true; again; again = pause(life, sentinelTimeout) {
				s.with(life, address, s.subscribe) //nolint:errcheck // a call that needs a connection reports the error
			}
		})
	}
	for {
		select {
		case <-s.changed:
		case <-life.Done():
			return
		}
		if _, err := s.locate(life); err != nil && pause(life, sentinelTimeout) {
			rediswire.Notify(s.changed)
		}
	}
}

// subscribe receives changes from a sentinel until the connection ends. It first triggers a query for changes before
// it.
func (s *sentinels) subscribe(conn rueidis.DedicatedClient) error {
	ended := conn.SetPubSubHooks(rueidis.PubSubHooks{OnMessage: func(m rueidis.PubSubMessage) {
		// NAME OLD-HOST OLD-PORT HOST PORT; it may arrive late, so it only triggers a query
		if name, _, _ := strings.Cut(m.Message, " "); name == s.master {
			rediswire.Notify(s.changed)
		}
	}})
	ctx, cancel := context.WithTimeout(s.store.frame.Life(), sentinelTimeout)
	defer cancel()
	if err := conn.Do(ctx, conn.B().Subscribe().Channel("+switch-master").Build()).Error(); err != nil {
		return err
	}
	rediswire.Notify(s.changed)
	select {
	case <-ended:
	case <-s.store.frame.Life().Done():
	}
	return nil
}
