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

	// graceBeyond is by how much the default grace is longer than the time that a command has to end.
	graceBeyond = time.Second

	// pulse is how often a lease is checked if nothing happens. Timers do not advance while a machine is suspended.
	pulse = time.Second
)

// A notice has the times for ending a command that must not run any longer. The command gets SIGTERM, has killAfter to
// end, and is then killed. It is dead before the store can grant its lock to another claim: not later than the instant
// until which the lease is known to be held, plus the grace, less a margin.
type notice struct {
	killAfter time.Duration
	grace     time.Duration
	margin    time.Duration // for late timers, and for the delivery of SIGKILL
}

// newNotice returns a notice for the flags --kill-after and --grace, which are nil if not given. It returns a usage
// error if killAfter is too long for the ttl.
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
	// A lease that is renewed in time has two thirds of its ttl left. If a command had to end that early, the first
	// failed renewal would end it.
	most := ttl / 3
	if n.lead() <= most {
		return n, nil
	}
	fits := max(0, n.killAfter-(n.lead()-most))
	if killAfter != nil && fits < *killAfter {
		return n, usageError("--kill-after %v is too long for a ttl of %v and a grace of %v: the command would have "+
			"to be ended before the lock can be known to be lost; give at most --kill-after %v, or a longer --ttl",
			n.killAfter, ttl, n.grace, fits)
	}
	n.killAfter = fits
	return n, nil
}

// lead returns how long before the end of the lease the command gets SIGTERM, so that it is dead in time.
func (n notice) lead() time.Duration { return max(0, n.killAfter+n.margin-n.grace) }

// termBy returns when the command has to get SIGTERM, for a lease that lasts until the given instant.
func (n notice) termBy(until time.Time) time.Time { return until.Add(-n.lead()) }

// killBy returns when the command has to be dead, for a lease that lasts until the given instant.
func (n notice) killBy(until time.Time) time.Time { return until.Add(n.grace - n.margin) }

// ttlOf returns the ttl that a lock will have.
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

// A watch supervises the lease while a command runs under it.
type watch struct {
	grip   grip
	notice notice
	store  string    // its display name
	why    error     // why the command must end; nil while it may run
	killAt time.Time // when it is killed, if it must end
}

var errNotRenewed = errors.New("it could not be renewed in time")

// mayRun reports whether the command may run. Once it returned false, it always does.
func (w *watch) mayRun() bool {
	if w.why != nil {
		return false
	}
	err, until := w.grip.Err(), w.grip.Until()
	switch {
	case err != nil:
		w.why = err
		if cause := context.Cause(w.grip.Context()); cause != nil {
			w.why = cause // it has the reason
		}
	case passed(w.notice.termBy(until)):
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

// mustDie reports whether the time is over that a command had to end.
func (w *watch) mustDie() bool { return w.why != nil && passed(w.killAt) }

// lost returns a channel that is closed when the lease ends. It returns nil after mayRun has returned false.
func (w *watch) lost() <-chan struct{} {
	if w.why != nil {
		return nil
	}
	return w.grip.Context().Done()
}

// next returns how long to wait until the lease has to be checked again.
func (w *watch) next() time.Duration {
	at := w.killAt
	if w.why == nil {
		at = w.notice.termBy(w.grip.Until())
	}
	return min(max(time.Until(at), time.Millisecond), pulse)
}

// passed reports whether t has passed on the monotonic or the wall clock. The monotonic clock does not advance while a
// machine is suspended.
func passed(t time.Time) bool {
	now := time.Now()
	return !now.Before(t) || !now.Round(0).Before(t.Round(0))
}
