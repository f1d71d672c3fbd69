package check

import (
	"fmt"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/servers"
	"github.com/holdfast-go/holdfast/lab/history"
)

// A cell is what the naive lock needs of a server: one key that runs out, and a counter.
type cell interface {
	setNX(value string, ttl time.Duration) bool
	del()
	delIf(value string)
	incr() uint64
}

// A memoryCell is a cell in this process.
type memoryCell struct {
	mu      sync.Mutex
	value   string
	expires time.Time
	count   uint64
}

func (c *memoryCell) setNX(value string, ttl time.Duration) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if time.Now().Before(c.expires) {
		return false
	}
	c.value, c.expires = value, time.Now().Add(ttl)
	return true
}

func (c *memoryCell) del() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.expires = time.Time{}
}

func (c *memoryCell) delIf(value string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.value == value {
		c.expires = time.Time{}
	}
}

func (c *memoryCell) incr() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.count++
	return c.count
}

// A redisCell is a cell in a real Redis.
type redisCell struct {
	t    *testing.T
	conn *servers.Conn
}

func (c redisCell) do(args ...string) any {
	c.t.Helper()
	answer, err := c.conn.Do(args...)
	if err != nil {
		c.t.Fatalf("%s: %v", args[0], err)
	}
	return answer
}

func (c redisCell) setNX(value string, ttl time.Duration) bool {
	return c.do("SET", "lock", value, "NX", "PX", strconv.FormatInt(ttl.Milliseconds(), 10)) == "OK"
}

func (c redisCell) del() { c.do("DEL", "lock") }

func (c redisCell) delIf(value string) {
	c.do("EVAL", `if redis.call("GET", KEYS[1]) == ARGV[1] then redis.call("DEL", KEYS[1]) end`, "1", "lock", value)
}

func (c redisCell) incr() uint64 { return uint64(c.do("INCR", "count").(int64)) }

// A naive lock is what is often written: SET NX with a time to live. It knows when its time is over.
type naive struct {
	cell
	rec    *history.Recorder
	name   string
	until  time.Time
	ticket uint64
	belief *history.Belief
}

func (l *naive) tryLock(ttl time.Duration) bool {
	sent := time.Now()
	if !l.setNX(l.name, ttl) {
		return false
	}
	l.until = sent.Add(ttl)
	if l.ticket == 0 {
		l.ticket = l.incr()
	}
	h := history.Hold{
		Who: history.Who{
			Client: l.name,
		}, Resource: "lock", Kind: history.Exclusive, Token: holdfast.Token(l.ticket) << 8,
	}
	l.belief, _ = l.rec.Begin(h, func() bool { return time.Now().Before(l.until) })
	return l.belief != nil
}

func (l *naive) await(ttl time.Duration) {
	for !l.tryLock(ttl) {
		time.Sleep(time.Millisecond)
	}
}

const (
	briefly = 100 * time.Millisecond
	forLong = time.Minute
)

// deletesBlindly runs the schedule that breaks a release without a look at the owner: A is slow, and its time runs
// out. B has the lock. A gives back what it no longer has, and C gets it beside B.
func deletesBlindly(a, b, c *naive, release func(*naive)) {
	a.await(briefly)
	b.await(forLong) // when A's time is over
	a.belief.End()
	release(a)
	first := c.tryLock(forLong)
	b.belief.Check()
	b.belief.End()
	release(b)
	if !first {
		c.await(forLong)
	}
	c.belief.End()
	release(c)
}

// drawsFirst runs the schedule that breaks a token that is drawn before the lock is held: A draws, B draws and holds,
// and then A holds.
func drawsFirst(a, b *naive, draw func(*naive)) {
	draw(a)
	draw(b)
	for _, l := range []*naive{b, a} {
		l.await(forLong)
		l.belief.End()
		l.delIf(l.name)
	}
}

// onCells runs fn with three clients of one cell, in memory and in Redis, and gives the history to verdict.
func onCells(t *testing.T, fn func(a, b, c *naive), verdict func(*testing.T, []history.Hold)) {
	for _, kind := range []string{"memory", "redis"} {
		t.Run(kind, func(t *testing.T) {
			var shared cell = &memoryCell{}
			if kind == "redis" {
				conn, err := servers.Redis(t).Dial()
				if err != nil {
					t.Fatal(err)
				}
				defer conn.Close()
				shared = redisCell{t, conn}
			}
			dir := t.TempDir()
			var clients []*naive
			for i := range 3 {
				rec, err := history.Create(dir, fmt.Sprint("p", i))
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { rec.Close() })
				clients = append(clients, &naive{cell: shared, rec: rec, name: string(rune('A' + i))})
			}
			fn(clients[0], clients[1], clients[2])
			holds, err := history.ReadDir(dir)
			if err != nil {
				t.Fatal(err)
			}
			verdict(t, holds)
		})
	}
}

func TestBrokenRelease(t *testing.T) {
	onCells(t, func(a, b, c *naive) {
		deletesBlindly(a, b, c, func(l *naive) { l.del() })
	}, func(t *testing.T, holds []history.Hold) {
		found := Overlap(holds)
		if len(holds) != 3 || len(found) != 1 || found[0].Holds[0].Client != "B" || found[0].Holds[1].Client != "C" {
			t.Fatalf("found %v in %v, want B and C", found, holds)
		}
		t.Log(found[0])
	})
}

func TestSoundRelease(t *testing.T) {
	onCells(t, func(a, b, c *naive) {
		deletesBlindly(a, b, c, func(l *naive) { l.delIf(l.name) })
	}, func(t *testing.T, holds []history.Hold) {
		if found := append(Overlap(holds), Tokens(holds)...); len(holds) != 3 || len(found) != 0 {
			t.Errorf("found %v in %v", found, holds)
		}
	})
}

func TestBrokenTokens(t *testing.T) {
	onCells(t, func(a, b, _ *naive) {
		drawsFirst(a, b, func(l *naive) { l.ticket = l.incr() })
	}, func(t *testing.T, holds []history.Hold) {
		if found := Tokens(holds); len(found) != 1 || found[0].Rule != Order || len(Overlap(holds)) != 0 {
			t.Fatalf("found %v in %v, want one about the order", found, holds)
		}
	})
}

func TestSoundTokens(t *testing.T) {
	onCells(t, func(a, b, _ *naive) {
		drawsFirst(a, b, func(*naive) {})
	}, func(t *testing.T, holds []history.Hold) {
		if found := append(Overlap(holds), Tokens(holds)...); len(holds) != 2 || len(found) != 0 {
			t.Errorf("found %v in %v", found, holds)
		}
	})
}
