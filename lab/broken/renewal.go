package broken

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/fence"
	"github.com/holdfast-go/holdfast/lab/check"
)

// A renewed lock checks its owner, and a background goroutine renews it. It counts its time from when a request was
// sent, and its holder can ask whether it still holds. As a lock there is nothing wrong with it.
type renewed struct {
	*setNXPX
	background *redis
	held       atomic.Pointer[time.Time] // until then
	stop       context.CancelFunc
	renewing   sync.WaitGroup
}

func newRenewed(ctx context.Context, p *part) (lock, error) {
	r, err := dialRedis(ctx, p.Addrs[0])
	if err != nil {
		return nil, err
	}
	background, err := dialRedis(ctx, p.Addrs[0])
	if err != nil {
		return nil, errors.Join(err, r.close())
	}
	return &renewed{setNXPX: newSetNXPX(r, p), background: background}, nil
}

func (l *renewed) tryLock(ctx context.Context) (bool, error) {
	ok, err := l.setNXPX.tryLock(ctx)
	if ok {
		l.held.Store(&l.until)
		ctx, l.stop = context.WithCancel(context.WithoutCancel(ctx))
		l.renewing.Go(func() { l.renew(ctx) })
	}
	return ok, err
}

func (l *renewed) renew(ctx context.Context) {
	for pause(ctx, l.ttl/3) == nil {
		until := time.Now().Add(l.ttl)
		if ok, err := l.background.ok("EVAL", renewIfMine, 1, l.key, l.value, ms(l.ttl)); !ok || err != nil {
			return
		}
		l.held.Store(&until)
	}
}

func (l *renewed) believes() bool { return time.Now().Before(*l.held.Load()) }

func (l *renewed) unlock(ctx context.Context) error {
	l.stop()
	l.renewing.Wait()
	return l.setNXPX.unlock(ctx)
}

func (l *renewed) close() error {
	if l.stop != nil {
		l.stop()
	}
	err := errors.Join(l.background.close(), l.setNXPX.close())
	l.renewing.Wait()
	return err
}

// A bareStock is a number in Redis that a lock protects, and nothing else does.
type bareStock struct {
	*redis
	key string
}

func (r *bareStock) read(context.Context, holdfast.Token) (uint64, error) {
	return number(r.do("GET", r.key))
}

func (r *bareStock) write(_ context.Context, _ holdfast.Token, value uint64) (bool, error) {
	return r.ok("SET", r.key, value)
}

// A fencedStock is the same number behind a fence, which sees the token of each client that reads or writes.
type fencedStock struct {
	fence fence.Key
	key   string
}

func (r *fencedStock) close() error { return r.fence.Redis.(*redis).close() }

func (r *fencedStock) read(ctx context.Context, token holdfast.Token) (uint64, error) {
	return number(r.fence.Do(ctx, token, `return redis.call("GET", KEYS[1])`, []string{r.key}))
}

func (r *fencedStock) write(ctx context.Context, token holdfast.Token, value uint64) (bool, error) {
	_, err := r.fence.Do(ctx, token, `return redis.call("SET", KEYS[1], ARGV[1])`, []string{r.key}, fmt.Sprint(value))
	if errors.Is(err, holdfast.ErrStale) {
		return false, nil
	}
	return err == nil, err
}

func newStock(ctx context.Context, p *part) (register, error) {
	r, err := dialRedis(ctx, p.Addrs[0])
	if p.Holdfast {
		return &fencedStock{fence.Key{Redis: r, Name: p.Lock + ":fence"}, p.Lock + ":stock"}, err
	}
	return &bareStock{r, p.Lock + ":stock"}, err
}

func number(answer any, err error) (uint64, error) {
	if err != nil {
		return 0, err
	}
	return strconv.ParseUint(fmt.Sprint(answer), 10, 64)
}

var noRenewal = &Rung{
	Number: 6, Name: "no-renewal",
	What:    "SET NX PX with an owner that is checked on release, and nobody renews it",
	Seen:    "nearly every tutorial; the ttl is \"long enough\"",
	Promise: oneHolder, Rule: check.Exclusion,
	Story:    "A's work takes longer than the ttl. B gets in, and A goes on.",
	Prevents: "A lease is renewed in the background for as long as its holder works, three times in a ttl.",
	Store:    "redis", Needs: redisServer, Budget: 20 * time.Second,
	broken:   overRedis(func(r *redis, p *part) lock { return newSetNXPX(r, p) }),
	holdfast: holdfastRedis,
	schedule: func(s *stage) {
		s.onRedis()
		short := s.millis(300, 500)
		a, b := s.enter("A", ttl(short)), s.enter("B")
		a.locks()
		a.says("works for longer than the ttl of %v", short)
		w := b.asks()
		w.grantedWrongly(short + s.millis(200, 400))
		a.works(s.millis(20, 60))
		a.unlocks()
		w.granted()
	},
}

var lateWrite = &Rung{
	Number: 7, Name: "late-write",
	What:    "owner-checked, renewed in the background, asked before each write: a perfect lock, without a fence",
	Seen:    "good lock libraries, used as their examples show",
	Promise: "no acknowledged update is lost",
	Story: "A reads the stock, asks its lock (all is well), and its process is stopped before it writes. A's time " +
		"passes, B sells two items. A goes on and writes what it had computed.",
	Rule: check.LostUpdate,
	Prevents: "No lock can prevent it: A has no chance to ask once more. Each lease has a token that rises from " +
		"holder to holder, and a fence at the data refuses a token that is smaller than one it has seen.",
	Store: "redis and fence.Key", Needs: redisServer, Budget: 20 * time.Second,
	broken:   newRenewed,
	holdfast: holdfastRedis,
	register: newStock,
	schedule: func(s *stage) {
		server := s.onRedis()
		_, err := server.Do("SET", s.lock+":stock", fmt.Sprint(s.stocks(50+uint64(s.random.IntN(50)))))
		s.must(err)
		a, b := s.enterProcess(ttl(s.millis(400, 700))), s.enter("B")
		a.locks()
		left := a.reads()
		a.says("asks its lock: all is well")
		goesOn := a.isStopped()
		b.locks()
		b.writes(b.reads() - 2) // it sells two
		b.unlocks()
		goesOn()
		a.writes(left - 1)
	},
}
