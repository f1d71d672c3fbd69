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
	sentinelPatience = time.Second            // how long a sentinel may take to answer
	sentinelLonger   = 100 * time.Millisecond // how long others may take when most have answered
)

var (
	errSwitched = errors.New("another server became the master meanwhile")
	errUnknown  = errors.New("it knows none of this name")
	errBehind   = errors.New("it has not heard of the last failover")
)

// sentinels know which server is the master. A store asks all of them each time that it connects, and listens to all of
// them, so that it leaves a master that was replaced, also where that one still lives and does not know.
//
// They may contradict each other: one that is cut off goes on naming the old master. Each failover has a greater epoch
// than all before it, so that the latest is right.
type sentinels struct {
	*single
	master    string               // the name of what they watch
	options   rueidis.ClientOption // how they are reached
	addresses []string
	heard     chan struct{} // holds a token when they have to be asked whether the master has changed

	mu    sync.Mutex
	asked int // how often they were asked so far
	known belief
	led   map[*ledConn]string // connections to masters, also those that are being made, with their addresses
}

// A belief is who the master is.
type belief struct {
	address string
	epoch   int64 // of the failover that made it the master
	asked   int   // which question it answers
}

func (b *base) newSentinels(options rueidis.ClientOption) *sentinels {
	own := options.Sentinel
	one := b.newSingle()
	one.failsOver = true
	return &sentinels{
		single:    one,
		master:    own.MasterSet,
		options:   rueidis.ClientOption{Username: own.Username, Password: own.Password, TLSConfig: own.TLSConfig},
		addresses: slices.Clone(options.InitAddress),
		heard:     make(chan struct{}, 1),
		led:       map[*ledConn]string{},
	}
}

// begin connects to the master, and begins to listen to the sentinels.
func (s *sentinels) begin(ctx context.Context) error {
	err := s.single.begin(ctx)
	if err == nil {
		s.store.frame.Go(s.watch)
	}
	return err
}

// dial connects to the master, wherever that is now. It gives up when another becomes the master meanwhile.
func (s *sentinels) dial(ctx context.Context, _ string, config *tls.Config) (net.Conn, error) {
	address, err := s.locate(ctx)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	led := &ledConn{by: s, leave: cancel}
	if !s.lead(led, address) {
		return nil, errSwitched
	}
	conn, err := s.store.way.Dial(ctx, address, config)
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, still := s.led[led]; !still {
		if err == nil {
			rediswire.Cut(conn)
		}
		return nil, errSwitched
	}
	if err != nil {
		delete(s.led, led)
		return nil, err
	}
	led.Conn, led.leave = conn, func() { rediswire.Cut(conn) }
	return led, nil
}

// A ledConn is a connection that ends when its server is the master no more.
type ledConn struct {
	net.Conn
	by    *sentinels
	leave func() // ends it, or the attempt to make it
}

// NetConn is what it is made of.
func (c *ledConn) NetConn() net.Conn { return c.Conn }

// Close closes the connection.
func (c *ledConn) Close() error {
	c.by.mu.Lock()
	delete(c.by.led, c)
	c.by.mu.Unlock()
	return c.Conn.Close()
}

// lead notes where a connection leads to, unless that is the master no more.
func (s *sentinels) lead(led *ledConn, address string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.known.address != address {
		return false
	}
	s.led[led] = address
	return true
}

// locate asks the sentinels for the master's address.
func (s *sentinels) locate(ctx context.Context) (string, error) {
	s.mu.Lock()
	s.asked++
	question, epoch := s.asked, s.known.epoch
	s.mu.Unlock()
	said, lost := s.askAll(ctx, epoch)
	return s.believe(question, said, lost)
}

// believe takes what was said for true, unless it is known better, and leaves every other master.
func (s *sentinels) believe(question int, said []saying, lost *lostError) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.known.asked > question && (len(said) == 0 || latestOf(said).epoch <= s.known.epoch) {
		return s.known.address, nil // who asked later was answered first, and not by who knows less
	}
	if len(said) == 0 {
		return "", lost
	}
	latest := latestOf(said)
	if latest.epoch < s.known.epoch && !s.most(len(said)) {
		for _, behind := range said {
			lost.add(behind.sentinel, errBehind)
		}
		return "", lost
	}
	asked := max(question, s.known.asked)
	s.known = latest.belief
	s.known.asked = asked
	for led, to := range s.led {
		if to != latest.address {
			delete(s.led, led)
			led.leave()
		}
	}
	return latest.address, nil
}

// most says whether this is more than half of the sentinels. What so many say is so, though there was a greater epoch
// before: they may have been set up anew.
func (s *sentinels) most(n int) bool { return 2*n > len(s.addresses) }

// A saying is what one sentinel believes.
type saying struct {
	sentinel string
	belief
}

// latestOf is the latest of what was said: of two with the same epoch what more of them say, or who came first.
func latestOf(said []saying) saying {
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

// askAll asks all sentinels at once. One that does not answer holds up nobody for long, unless nobody else has heard of
// the failover with this epoch.
func (s *sentinels) askAll(ctx context.Context, epoch int64) (said []saying, lost *lostError) {
	lost = newLost(fmt.Sprintf("no sentinel names a master called %q", s.master), "sentinel ", explain)
	said = survey(ctx, s.store.frame, sentinelPatience, lost, s.addresses, s.ask, func(said []saying) time.Duration {
		if s.most(len(said)) && latestOf(said).epoch >= epoch {
			return sentinelLonger
		}
		return 0
	})
	return said, lost
}

// ask asks a sentinel who the master is.
func (s *sentinels) ask(ctx context.Context, address string) (said saying, err error) {
	said.sentinel = address
	err = s.with(ctx, address, func(conn rueidis.DedicatedClient) error {
		answers := conn.DoMulti(ctx,
			// The epoch comes first: an address may be newer than its epoch, and never older. While a failover is under
			// way MASTER itself still has the old address.
			conn.B().Arbitrary("SENTINEL", "MASTER").Args(s.master).Build(),
			conn.B().SentinelGetMasterAddrByName().Master(s.master).Build())
		named, err := answers[1].AsStrSlice()
		switch {
		case rueidis.IsRedisNil(err):
			return errUnknown
		case err != nil:
			return err
		case len(named) != 2:
			return fmt.Errorf("%w: %q", errShape, named)
		}
		about, err := answers[0].AsStrMap()
		if err != nil {
			return err
		}
		said.address = net.JoinHostPort(named[0], named[1])
		if said.epoch, err = strconv.ParseInt(about["config-epoch"], 10, 64); err != nil {
			return fmt.Errorf("%w: its epoch is %q", errShape, about["config-epoch"])
		}
		return nil
	})
	return said, err
}

// with connects to a sentinel for as long as use takes. Nothing of that outlives life.
func (s *sentinels) with(life context.Context, address string, use func(rueidis.DedicatedClient) error) error {
	options := s.options
	options.InitAddress = []string{address}
	client, err := rediswire.NewClient(life, sentinelPatience, options, s.store.way.Dial)
	if err != nil {
		return err
	}
	defer client.Close()
	conn, _ := client.Dedicate()
	defer conn.Close()
	return use(conn)
}

// watch listens to all sentinels until the store is closed, and asks them all when one of them has something to say.
func (s *sentinels) watch() {
	life := s.store.frame.Life()
	for _, address := range s.addresses {
		s.store.frame.Go(func() {
			for again := true; again; again = pause(life, sentinelPatience) {
				s.with(life, address, s.listenTo) //nolint:errcheck // whoever needs a connection is told
			}
		})
	}
	for {
		select {
		case <-s.heard:
		case <-life.Done():
			return
		}
		if _, err := s.locate(life); err != nil && pause(life, sentinelPatience) {
			notify(s.heard)
		}
	}
}

// listenTo hears from a sentinel of changes, until it is lost. Whatever had changed before is asked for.
func (s *sentinels) listenTo(conn rueidis.DedicatedClient) error {
	ended := conn.SetPubSubHooks(rueidis.PubSubHooks{OnMessage: func(m rueidis.PubSubMessage) {
		// NAME OLD-HOST OLD-PORT HOST PORT; it may come late, so that it does not count by itself
		if name, _, _ := strings.Cut(m.Message, " "); name == s.master {
			notify(s.heard)
		}
	}})
	ctx, cancel := context.WithTimeout(s.store.frame.Life(), sentinelPatience)
	defer cancel()
	if err := conn.Do(ctx, conn.B().Subscribe().Channel("+switch-master").Build()).Error(); err != nil {
		return err
	}
	notify(s.heard)
	select {
	case <-ended:
	case <-s.store.frame.Life().Done():
	}
	return nil
}
