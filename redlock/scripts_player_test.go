package redlock

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/servers"
	"github.com/holdfast-go/holdfast/redlock/internal/vote"
)

// A bench has a server whose clock the test sets.
type bench struct {
	conn  *servers.Conn
	clock *servers.Clock
}

func newBench(t *testing.T) *bench {
	t.Helper()
	clock := servers.NewClock(t)
	server := servers.Redis(t, servers.Args("--appendonly", "no"), servers.Env(clock.Env()...))
	conn, err := server.Dial()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return &bench{conn, clock}
}

func (b *bench) now() time.Duration { return time.Duration(time.Now().UnixNano()) + b.clock.Offset() }

// play plays one seed. The error says where script and model part, and how it came to that.
func (b *bench) play(seed int, spoil func(string) string, seen map[string]int) error {
	if _, err := b.conn.Do("FLUSHALL"); err != nil {
		return err
	}
	p := &player{bench: b, random: rand.New(rand.NewPCG(uint64(seed), 8)), run: "run0", spoil: spoil, seen: seen}
	for range steps {
		if err := p.step(); err != nil {
			return fmt.Errorf("seed %d, step %d: %w\n%s", seed, len(p.trace), err,
				strings.Join(p.trace[max(0, len(p.trace)-12):], "\n"))
		}
	}
	return nil
}

const (
	testMaxTTL = 30 * time.Second
	aeon       = 100 * 365 * 24 * time.Hour // for the model: no end
)

var (
	testKeys = []string{"lock:a", "lock:b", "lock:c"}
	// One is the beginning of another, and one has what stands between value and ticket.
	testValues = []string{"x.1", "x.10", "x.11", "y of {1} ticket.1"}
)

// A player is one random program.
type player struct {
	*bench
	random *rand.Rand
	node   vote.Node
	run    string
	spoil  func(string) string
	trace  []string
	seen   map[string]int
}

func pick[T any](p *player, from []T) T { return from[p.random.IntN(len(from))] }

func (p *player) chance(percent int) bool { return p.random.IntN(100) < percent }

func (p *player) note(format string, args ...any) {
	p.trace = append(p.trace, fmt.Sprintf(format, args...))
}

// step is something that happens to the node, or a request.
func (p *player) step() error {
	switch n := p.random.IntN(100); {
	case n < 2:
		p.run = "run" + strconv.Itoa(p.random.IntN(4))
		p.note("restart as %s", p.run)
	case n < 3:
		p.note("all data is lost")
		p.node = vote.Node{}
		return p.do("FLUSHALL")
	case n < 4:
		p.note("the record is lost")
		p.node.Record = nil
		return p.do("DEL", recordKey)
	case n < 5 && p.node.Record != nil:
		p.note("the record is of a newer format")
		p.node.Record.Format = 2
		return p.do("SET", recordKey, "2 and so on")
	case n < 8:
		return p.stranger()
	case n < 14:
		return p.stepClock(time.Duration(p.random.Int64N(int64(testMaxTTL))))
	case n < 20:
		return p.compare(p.keeps(1 + p.random.IntN(len(testKeys))))
	default:
		return p.compare([]*vote.Request{p.request()})
	}
	return nil
}

func (p *player) do(command ...string) error {
	_, err := p.conn.Do(command...)
	return err
}

// stepClock moves the server's clock. What has expired before it is set back stays away: Redis may have deleted it, or
// not.
func (p *player) stepClock(d time.Duration) error {
	if p.chance(20) {
		d *= 60 // beyond the end of any trust
	}
	if p.chance(20) {
		d = -d
	}
	p.note("the clock steps by %v", d)
	for {
		deadline := p.quiet()
		if err := p.removeOut(p.now().Milliseconds()); err != nil {
			return err
		}
		if p.now().Milliseconds() < deadline { // or something has expired meanwhile
			p.clock.Step(d)
			return nil
		}
	}
}

// removeOut removes what has expired by a time, in milliseconds since 1970.
func (p *player) removeOut(now int64) error {
	for key, e := range p.node.Keys {
		if e.End < now {
			delete(p.node.Keys, key)
			if err := p.do("DEL", key); err != nil {
				return err
			}
		}
	}
	for value, end := range p.node.Tombs {
		if end < now {
			delete(p.node.Tombs, value)
			if err := p.do("DEL", leftPrefix+value); err != nil {
				return err
			}
		}
	}
	return nil
}

// stranger has another library, or anything else, take a key.
func (p *player) stranger() error {
	key := pick(p, testKeys)
	e := vote.Entry{Value: "stranger", End: (p.now() + aeon).Milliseconds()}
	if p.node.Keys == nil {
		p.node.Keys = map[string]vote.Entry{}
	}
	if err := p.do("DEL", key); err != nil {
		return err
	}
	var err error
	switch p.random.IntN(3) {
	case 0:
		err = p.do("SET", key, e.Value)
	case 1:
		e.End = (p.now() + time.Minute).Milliseconds()
		err = p.do("SET", key, e.Value, "PXAT", strconv.FormatInt(e.End, 10))
	default:
		e.Value = ""
		err = p.do("RPUSH", key, "no string")
	}
	p.note("a stranger takes %q with %q", key, e.Value)
	p.node.Keys[key] = e
	return err
}

// request is a random one, more often of some sense than not.
func (p *player) request() *vote.Request {
	ops := []vote.Op{
		vote.Take, vote.Take, vote.Take, vote.Keep, vote.Leave, vote.Leave, vote.Raise, vote.Raise, vote.Look,
		vote.Admit, vote.Admit, vote.Init, vote.Trust, vote.Break,
	}
	r := &vote.Request{
		Op:     pick(p, ops),
		MaxTTL: testMaxTTL,
		Key:    pick(p, testKeys),
		Value:  pick(p, testValues),
		TTL:    p.ttl(),
	}
	if p.chance(2) {
		r.MaxTTL += time.Microsecond
	}
	r.Bury, r.Tell = p.chance(40), p.chance(50)
	entry := p.node.Keys[r.Key]
	if slices.Contains(testValues, entry.Value) && p.chance(60) {
		r.Value = entry.Value
	}
	r.Ticket = p.ticket(r.Op, entry)
	if r.Op == vote.Look && p.chance(20) {
		r.Key = ""
	}
	if rec := p.node.Record; rec != nil {
		r.Episode = vote.Episode{Run: rec.Run, Since: rec.Since}
		if r.Op == vote.Admit && !rec.Votes && p.chance(30) {
			p.note("the clock steps by max-ttl")
			p.clock.Step(testMaxTTL)
		}
	}
	if p.chance(20) {
		r.Episode.Since -= time.Microsecond
	} else if p.chance(20) {
		r.Episode.Run = "run9"
	}
	return r
}

func (p *player) ttl() time.Duration {
	return 5*time.Second + time.Duration(p.random.Int64N(int64(testMaxTTL)))
}

func (p *player) ticket(op vote.Op, entry vote.Entry) uint64 {
	mark := uint64(p.now().Microseconds()) //nolint:gosec // a clock after 1970
	if p.node.Record != nil {
		mark = p.node.Record.Mark
	}
	switch n := p.random.IntN(20); {
	case op == vote.Break && n < 15:
		return entry.Ticket
	case op == vote.Keep && n < 10:
		return entry.Ticket
	case n < 12:
		return mark + 1 + p.random.Uint64N(1000)
	case n < 14:
		return mark - p.random.Uint64N(1000)
	case n < 15:
		return mark + uint64(25*time.Hour/time.Microsecond)
	case n < 16 && (op == vote.Raise || op == vote.Take):
		return vote.MaxTicket + 1
	case n < 17:
		return 0
	}
	return mark + p.random.Uint64N(uint64(time.Hour/time.Microsecond))
}

// keeps are several in one run, each of another key.
func (p *player) keeps(count int) []*vote.Request {
	var rs []*vote.Request
	for _, i := range p.random.Perm(len(testKeys))[:count] {
		r := p.request()
		r.Op, r.Key, r.MaxTTL = vote.Keep, testKeys[i], testMaxTTL
		rs = append(rs, r)
	}
	return rs
}
