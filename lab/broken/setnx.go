package broken

import (
	"context"
	"time"

	"github.com/holdfast-go/holdfast/internal/servers"
	"github.com/holdfast-go/holdfast/lab/check"
	"github.com/holdfast-go/holdfast/lab/proxy"
)

// A setNX is the lock that most programs begin with: the client that creates the key has the lock. It has no expiry.
type setNX struct {
	*redis
	key string
}

func (l *setNX) tryLock(context.Context) (bool, error) {
	return l.ok("SETNX", l.key, "locked")
}

func (l *setNX) unlock(context.Context) error {
	_, err := l.do("DEL", l.key)
	return err
}

// A setNXThenExpire gives the key an expiry, in a second command.
type setNXThenExpire struct {
	setNX
	ttl time.Duration
}

func (l *setNXThenExpire) tryLock(ctx context.Context) (bool, error) {
	ok, err := l.setNX.tryLock(ctx)
	if err != nil || !ok {
		return false, err
	}
	return l.ok("PEXPIRE", l.key, ms(l.ttl)) // what if the client dies before it gets here?
}

var setNXDel = &Rung{
	Number: 1, Name: "setnx-del",
	What:    "SETNX takes the lock and DEL releases it; the key has no expiry",
	Seen:    "first attempts, and old answers to \"how do I lock with Redis\"",
	Promise: "when a holder dies, somebody else gets the lock",
	Story:   "A takes the lock and is killed. B waits.",
	Rule:    check.LongWait,
	Prevents: "Every claim has a ttl that the server enforces from the moment of the grant, in the same step. " +
		"A dead holder is out after its ttl.",
	Store: "redis", Needs: redisServer, Budget: 20 * time.Second,
	broken:   overRedis(func(r *redis, p *part) lock { return &setNX{r, p.Lock} }),
	holdfast: holdfastRedis,
	schedule: func(s *stage) {
		s.onRedis()
		s.holderDies()
	},
}

var setNXExpire = &Rung{
	Number: 2, Name: "setnx-expire",
	What:    "SETNX takes the lock, and a second command, EXPIRE, gives it a time to live",
	Seen:    "code from before Redis 2.6.12, whose SET had no NX and EX, and copies of it",
	Promise: "when a holder dies, at whatever moment, somebody else gets the lock",
	Story:   "A is killed after its SETNX has arrived and before it sends EXPIRE. B waits.",
	Rule:    check.LongWait,
	Prevents: "The grant and its expiry are one script, so that there is nothing in between. " +
		"A claim whose acquisition was never acknowledged expires like any other.",
	Store: "redis", Needs: redisServer, Budget: 20 * time.Second,
	broken:   overRedis(func(r *redis, p *part) lock { return &setNXThenExpire{setNX{r, p.Lock}, p.TTL} }),
	holdfast: holdfastRedis,
	schedule: func(s *stage) {
		server := s.onRedis()
		s.boundsWaits(deadHolderBound)
		a, b := s.enterProcess(ttl(s.millis(300, 600))), s.enter("B")
		b.locks() // so that Redis knows the scripts
		b.unlocks()
		s.await("the lock is free", func() bool { return len(s.keys(server)) == 0 })
		a.holdBack(proxy.Down, "what the server answers to A")
		a.asks()
		s.await("A's request arrives", func() bool { return len(s.keys(server)) > 0 })
		s.tell("", "A's request has arrived at the server")
		a.dies()
		b.waitsForDead()
	},
}

// keys are what the lock consists of at the server.
func (s *stage) keys(server *servers.RedisServer) []any {
	keys, err := server.Do("KEYS", "*"+s.lock+"*")
	s.must(err)
	return keys.([]any)
}
