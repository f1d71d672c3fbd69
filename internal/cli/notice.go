package cli

import (
	"context"
	"errors"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/store"
)

const (
	defaultKillAfter = 5 * time.Second

	// graceBeyond is how much longer than a command may take to end the store keeps its place, by default.
	graceBeyond = time.Second

	// pulse is how often a lease is looked at if nothing happens. Timers stand still while a machine is suspended.
	pulse = time.Second
)

// A notice says how a command is ended that must not run any longer. It is told to end with SIGTERM, has killAfter to
// do so, and is then killed. It is dead before the store can grant its lock to another: not later than the instant up
// to which the lease is known to be held, plus the grace, less a margin.
type notice struct {
	killAfter time.Duration
	grace     time.Duration
	margin    time.Duration // for timers that are late, and for the kill to arrive
}

// newNotice makes a notice from what was asked for. killAfter and grace are nil where nothing was.
func newNotice(killAfter, grace *time.Duration, ttl time.Duration, canGrace bool) (notice, error) {
	n := notice{killAfter: defaultKillAfter, margin: min(time.Second, ttl/20)}
	if killAfter != nil {
		n.killAfter = *killAfter
	}
	switch {
	case grace != nil:
		n.grace = *grace
	case canGrace:
		n.grace = n.killAfter + graceBeyond
	}
	// A lease that is renewed as it should has two thirds of its ttl left. If a command had to end so early, nothing
	// could ever go wrong without ending it.
	most := ttl / 3
	if n.lead() <= most {
		return n, nil
	}
	fits := max(0, n.killAfter-(n.lead()-most))
	if killAfter != nil && fits < *killAfter {
		return n, usageError("--kill-after %v is too long for a ttl of %v and a grace of %v: the command would have to be "+
			"ended before the lock can be known to be lost; give at most --kill-after %v, or a longer --ttl",
			n.killAfter, ttl, n.grace, fits)
	}
	n.killAfter = fits
	return n, nil
}

// lead is how long before the end of the lease the command is told to end, so that it is dead in time.
func (n notice) lead() time.Duration { return max(0, n.killAfter+n.margin-n.grace) }

// tellBy is when the command has to be told to end, if the lease lasts until then.
func (n notice) tellBy(until time.Time) time.Time { return until.Add(-n.lead()) }

// killBy is when the command has to be dead.
func (n notice) killBy(until time.Time) time.Time { return until.Add(n.grace - n.margin) }

// ttlOf is the ttl that a lock will have.
func ttlOf(asked *time.Duration, at store.Location, abilities *store.Abilities) time.Duration {
	switch {
	case abilities.SessionTTL > 0:
		return abilities.SessionTTL
	case asked != nil:
		return *asked
	case at.TTL > 0:
		return at.TTL
	}
	return holdfast.DefaultTTL
}

// A watch looks after the lease while a command runs under it.
type watch struct {
	grip   grip
	notice notice
	store  string    // its name, for people
	why    error     // why the command must end; nil while it may run
	killAt time.Time // when it is killed, if it must end
}

var errNotRenewed = errors.New("it could not be renewed in time")

// mayRun asks whether the command may run. Once it must not, it never may again.
func (w *watch) mayRun() bool {
	if w.why != nil {
		return false
	}
	err, until := w.grip.Err(), w.grip.Until()
	switch {
	case err != nil:
		w.why = err
		if cause := context.Cause(w.grip.Context()); cause != nil {
			w.why = cause // it says more
		}
	case passed(w.notice.tellBy(until)):
		w.why = errNotRenewed
	default:
		return true
	}
	w.killAt = time.Now().Add(w.notice.killAfter)
	if by := w.notice.killBy(until); by.Before(w.killAt) {
		w.killAt = by
	}
	return false
}

// mustDie says whether a command that must end has had its time.
func (w *watch) mustDie() bool { return w.why != nil && passed(w.killAt) }

// lost is closed when the lease is over. It is nil once that is known.
func (w *watch) lost() <-chan struct{} {
	if w.why != nil {
		return nil
	}
	return w.grip.Context().Done()
}

// next is how long nothing has to be done, if nothing happens.
func (w *watch) next() time.Duration {
	at := w.killAt
	if w.why == nil {
		at = w.notice.tellBy(w.grip.Until())
	}
	return min(max(time.Until(at), time.Millisecond), pulse)
}

// passed says whether t is over on either clock: the monotonic one stands still while a machine is suspended.
func passed(t time.Time) bool {
	now := time.Now()
	return !now.Before(t) || !now.Round(0).Before(t.Round(0))
}
