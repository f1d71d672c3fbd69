package redisstore

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/holdfast-go/holdfast/internal/rediswire"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/frame"
)

// minTTL and maxTTL bound the ttl of a claim.
const (
	minTTL = 50 * time.Millisecond
	maxTTL = 7 * 24 * time.Hour
)

// A Store is one client's connection to Redis. It implements store.Store with a queue for each name, or in plain mode
// with one key for each name.
type Store struct{ mode }

// A mode is an implementation of locks: *lines or *plainMode.
type mode interface {
	store.Store
	store.Detacher
	store.Examiner
	// Server returns what the server said of itself when the store was opened.
	Server() Server
}

var (
	_ store.Store    = (*Store)(nil)
	_ store.Detacher = (*Store)(nil)
)

// A base has what all modes share: the settings and the connections.
type base struct {
	settings
	frame    *frame.Frame
	keys     keySpace
	channel  string // where its pushes go, after keys.pushes
	identity string
	server   Server
	met      sync.Once // sets server
	topology topology
	receive  func(rueidis.PubSubMessage) // takes messages; set by the mode
	work     []func()                    // what the mode does in the background
}

// newBase returns a base without connections, under this name in errors.
func newBase(name string, set settings) *base {
	set.logger = cmp.Or(set.logger, slog.Default())
	config := frame.Config{Name: name, Drift: frame.Clocks, Explain: set.explain, SharedLimits: true}
	if set.plain != nil {
		config.Name = "plain " + name
		config.Drift.Part = set.plain.drift
	}
	return &base{
		settings: set,
		frame:    frame.New(config),
		keys:     newKeySpace(set.prefix),
		channel:  strings.ToLower(rand.Text()[:16]),
	}
}

// newMode returns the mode that the settings select.
func (b *base) newMode() mode {
	if b.plain != nil {
		return newPlain(b)
	}
	return newLines(b)
}

// open connects, checks whether the server can keep locks, and subscribes to pushes.
func (b *base) open(ctx context.Context) (*Store, error) {
	s := &Store{b.newMode()}
	err := ctx.Err()
	if err == nil {
		err = b.settings.check()
	}
	if err == nil {
		err = b.begin(ctx)
	}
	if err != nil {
		s.Close() //nolint:errcheck // it has none
		return nil, err
	}
	for _, work := range b.work {
		b.frame.Go(work)
	}
	return s, nil
}

// begin connects and reads the identity. The error is a Fault or that of ctx.
func (b *base) begin(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, frame.AskTimeout)
	defer cancel()
	err := b.topology.begin(ctx)
	if err == nil {
		err = b.identify(ctx)
	}
	if err != nil {
		return b.frame.Fault(ctx, err)
	}
	return nil
}

// identify reads the identity that the server keeps for this prefix, and writes a new one if there is none.
func (b *base) identify(ctx context.Context) error {
	var text string
	try := b.try(b.topology.keysFor(b.keys.id), false)
	for try.next(ctx) {
		build := try.conn.B()
		answers := try.conn.DoAll(ctx, []rueidis.Completed{
			build.Set().Key(b.keys.id).Value("1 " + rand.Text()).Nx().Build(),
			build.Get().Key(b.keys.id).Build(),
		})
		text, _ = answers[1].Text()
		try.done(answers...)
	}
	if try.err != nil {
		return try.err
	}
	version, id, _ := strings.Cut(text, " ")
	switch {
	case id == "":
		return b.refused("foreign", b.keys.id)
	case version != "1":
		return b.refused("newer", b.keys.id)
	}
	b.identity = id + "/" + b.prefix
	return nil
}

// Server returns what the server said of itself when the store was opened.
func (b *base) Server() Server { return b.server }

// Notify implements store.Store.
func (b *base) Notify(fn func(store.ID, store.Status)) { b.frame.Notify(fn) }

// Abilities implements store.Store.
func (b *base) Abilities() store.Abilities {
	return store.Abilities{
		Store:        b.frame.Name,
		Identity:     b.identity,
		Queue:        true,
		Shared:       true,
		Grace:        true,
		Detach:       true,
		MinTTL:       minTTL,
		MaxTTL:       maxTTL,
		TakeoverTTLs: 1,
		TakeoverPlus: 50 * time.Millisecond,
		Tokens:       store.SurvivesRestart | store.SurvivesDataLoss | store.SurvivesClockBack | store.SurvivesFailover,
	}
}

// Close implements store.Store. Claims that have not left stay until their ttl has passed.
func (b *base) Close() error {
	if !b.frame.Shut() {
		return nil
	}
	b.frame.End()
	if b.topology != nil {
		b.topology.close()
	}
	b.frame.Wait()
	return nil
}

var (
	errUnusable = errors.New("it cannot keep locks")
	errEvicts   = errors.New("when its memory is full it throws away keys, and locks with them, by the policy")
)

// farOff is the difference of the server's clock above which a warning is logged. Locks do not depend on the clock;
// tickets after a loss of data do.
const farOff = 10 * time.Second

// inspect returns a final Fault if the server may evict locks and that is refused. Otherwise it logs a warning about
// eviction and about a clock that is far off. In a cluster it is called for each master, with its name.
func (b *base) inspect(server *Server, node string) error {
	name := b.frame.Name
	if node != "" {
		name += ", node " + node
	}
	if b.refuseEviction && server.evicts {
		return &store.Fault{Store: name, Final: true,
			Err: fmt.Errorf("%w %s: set maxmemory-policy to noeviction", errEvicts, server.Eviction)}
	}
	if server.evicts {
		b.logger.Warn("holdfast: locks may be lost: "+errEvicts.Error(), "store", name, "policy", server.Eviction)
	}
	if ahead := server.Ahead; ahead.Abs() > farOff {
		b.logger.Warn("holdfast: the server's clock differs from this machine's", "store", name, "ahead",
			ahead.Round(time.Second))
	}
	return nil
}

// openFault returns why a store cannot be opened, as a Fault. An unusable server makes it final, unless it is a replica
// that may be about to become the master.
func (b *base) openFault(ctx context.Context, err error, failsOver bool) error {
	if errors.Is(err, errUnusable) {
		return &store.Fault{Store: b.frame.Name, Final: !failsOver || !errors.Is(err, rediswire.ErrReplica), Err: err}
	}
	return b.frame.Fault(ctx, err)
}

// badMark returns the error of a mark that is too high to be genuine.
func (b *base) badMark(at *slotKeys, mark string) error {
	return store.BadMark(fmt.Sprintf("the key %q in %s", at.mark, b.frame.Name), mark)
}

// refused returns the error for the refusal of a script about a key: ErrFloor, ErrFormat, or a Fault.
func (b *base) refused(word, key string) error {
	switch word {
	case "floor":
		return store.ErrFloor
	case "newer":
		return fmt.Errorf("%w: the key %s", store.ErrFormat, store.Quote(key))
	case "foreign":
		err := fmt.Errorf("the key %s holds what no version of holdfast has written", store.Quote(key))
		return &store.Fault{Store: b.frame.Name, Final: true, Err: err}
	}
	return b.strange(word)
}

// strange returns the Fault of a response that cannot be parsed.
func (b *base) strange(said string) error {
	return &store.Fault{Store: b.frame.Name, Err: fmt.Errorf("%w: %.100q", rediswire.ErrShape, said)}
}
