package broken

import (
	"context"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/lab/check"
)

// A Rung is one broken lock of the ladder, with the schedule that breaks it.
type Rung struct {
	Number   int           // of its family on the ladder
	Name     string        // what `holdfast lab run` takes
	What     string        // the lock, in one sentence
	Seen     string        // where it is commonly seen
	Promise  string        // what should hold
	Story    string        // the schedule, in one or two sentences
	Rule     check.Rule    // what the schedule breaks
	Prevents string        // what prevents it in Holdfast
	Store    string        // Holdfast's store, or its guard, under the same schedule
	Needs    []string      // the server programs that it runs against
	Budget   time.Duration // how long both plays take at most, without starting servers

	schedule func(*stage)
	broken   opener                                         // nil: there is no lock
	holdfast func(*part) (url string)                       // nil: there is no lock
	options  []holdfast.Option                              // of Holdfast's client
	register func(context.Context, *part) (register, error) // what the lock protects, for both; nil: nothing
}

// An opener opens the broken lock of a player.
type opener = func(context.Context, *part) (lock, error)

// oneHolder is what most locks promise.
const oneHolder = "at most one client holds the lock at a time"

// Rungs returns all rungs, in the order of the ladder.
func Rungs() []*Rung { return slices.Clone(ladder) }

// Find returns the rung of this name.
func Find(name string) (r *Rung, ok bool) {
	i := slices.IndexFunc(ladder, func(r *Rung) bool { return r.Name == name })
	if i < 0 {
		return nil, false
	}
	return ladder[i], true
}

// ladder has all rungs. It is filled by init, because a player in a separate process finds its rung here.
var ladder []*Rung

func init() {
	ladder = []*Rung{
		setNXDel, setNXExpire,
		blindDelete, getCompareDelete,
		getSetClock, getSetOverwrite,
		noRenewal, lateWrite,
		asyncReplica, splitBrain, lostTail,
		redlockHalf, redlockElapsed, redlockClock, redlockRestart,
		rowNoExpiry, rowClientClock, rowReplica,
		versionGreater,
		zkHerd, zkSession,
		threadName, foreignUnlock, starvedWriter,
	}
}

// What the rungs on Redis need.
var redisServer = []string{"redis-server"}
