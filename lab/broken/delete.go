package broken

import (
	"context"
	"time"

	"github.com/holdfast-go/holdfast/lab/check"
	"github.com/holdfast-go/holdfast/lab/proxy"
)

// A punctual is a SET NX PX that knows when its time is over, so that nothing but its release is wrong with it.
type punctual struct{ *setNXPX }

func (l punctual) believes() bool { return time.Now().Before(l.until) }

// A blindDel releases without asking whose lock it is.
type blindDel struct{ punctual }

func (l blindDel) unlock(context.Context) error {
	_, err := l.do("DEL", l.key)
	return err
}

// A comparedDel asks first, in a command of its own.
type comparedDel struct{ punctual }

func (l comparedDel) unlock(context.Context) error {
	owner, err := l.do("GET", l.key)
	if err != nil || owner != l.value {
		return err
	}
	_, err = l.do("DEL", l.key) // is it still ours?
	return err
}

var blindDelete = &Rung{
	Number: 3, Name: "blind-delete",
	What:    "SET NX PX takes the lock, and DEL releases it without asking whose it is",
	Seen:    "most home-made locks on Redis",
	Promise: oneHolder, Rule: check.Exclusion,
	Story: "A's DEL is late: A's time is over, and B has the lock. DEL deletes B's lock, and C gets in beside B.",
	Prevents: "A release names the claim that it releases, by an ID that only its owner has, and the server compares " +
		"it. A late one finds nothing to release.",
	Store: "redis", Needs: redisServer, Budget: 20 * time.Second,
	broken:   overRedis(func(r *redis, p *part) lock { return blindDel{punctual{newSetNXPX(r, p)}} }),
	holdfast: holdfastRedis,
	schedule: func(s *stage) {
		s.onRedis()
		s.releasesLate(s.enter("A", ttl(s.millis(250, 500))), proxy.Requests, "what A sends")
	},
}

var getCompareDelete = &Rung{
	Number: 4, Name: "get-compare-delete",
	What:    "GET the owner, compare, and DEL if it is oneself: three steps instead of one",
	Seen:    "locks that were fixed once, after an incident with the one before",
	Promise: oneHolder, Rule: check.Exclusion,
	Story: "A asks who owns the lock, and the answer, \"you\", takes so long that A's time is over when it comes. " +
		"A's DEL deletes B's lock, and C gets in beside B.",
	Prevents: "Comparing and deleting are one script on the server: nothing happens in between. " +
		"In SQL databases they are one transaction, in etcd and ZooKeeper one request.",
	Store: "redis", Needs: redisServer, Budget: 20 * time.Second,
	broken:   overRedis(func(r *redis, p *part) lock { return comparedDel{punctual{newSetNXPX(r, p)}} }),
	holdfast: holdfastRedis,
	schedule: func(s *stage) {
		s.onRedis()
		s.releasesLate(s.enter("A", ttl(s.millis(1500, 2000))), proxy.Down, "what the server answers to A")
	},
}
