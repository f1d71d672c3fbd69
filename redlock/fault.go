package redlock

import (
	"context"
	"errors"
	"fmt"
	"math/bits"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/internal/rediswire"
	"github.com/holdfast-go/holdfast/redlock/internal/vote"
	"github.com/holdfast-go/holdfast/store"
)

// A noMajority is why there was no majority: what each node said that did not do as it was asked.
type noMajority struct {
	nodes, needed, count int
	whys                 []string
	wait                 time.Duration // when quarantine is the reason: how long until enough nodes vote
	admit                bool          // nodes have served their quarantine, and are just given their vote
	cause                error         // of a final fault: what its reason is called
}

// Error says what each node said.
func (e *noMajority) Error() string {
	text := fmt.Sprintf("%d of %d nodes answered as they should, and %d are needed", e.count, e.nodes, e.needed)
	if len(e.whys) == 0 {
		return text
	}
	if e.wait > 0 {
		text += fmt.Sprintf("; nodes are in quarantine for another %v: run `holdfast redlock init` if they are new", e.wait)
	}
	return text + ": " + strings.Join(e.whys, "; ")
}

// Unwrap gives the cause of a final fault.
func (e *noMajority) Unwrap() error { return e.cause }

// unadmitted says whether a call failed only because nodes were not given their vote yet, which is just being done.
func unadmitted(err error) bool {
	e, ok := errors.AsType[*noMajority](err)
	return ok && e.admit
}

// A nodeSet has a bit for each node.
type nodeSet uint64

func (s nodeSet) has(node int) bool { return s>>node&1 != 0 }
func (s nodeSet) count() int        { return bits.OnesCount64(uint64(s)) }

// all are all nodes.
func (s *Store) all() nodeSet { return 1<<len(s.nodes) - 1 }

// noMajority makes an error of what nodes said; those in counts did as they were asked.
func (s *Store) noMajority(said []vote.Answer, counts nodeSet, timeout time.Duration) error {
	return s.fault(said, counts, 0, timeout)
}

// fault is noMajority for a call in which nodes that had granted the lock were then asked to take its token: those in
// raise. The error is final if so many nodes refuse for good that there is no majority without them. The store is busy
// if a majority votes, as far as is known, and some were too slow.
func (s *Store) fault(said []vote.Answer, counts, raise nodeSet, timeout time.Duration) error {
	e := &noMajority{nodes: len(s.nodes), needed: s.rules.Majority(), count: counts.count()}
	finals := map[error]int{}
	final, marks, able := 0, 0, 0
	var waits []time.Duration // of nodes in quarantine
	for i, n := range s.nodes {
		if counts.has(i) {
			continue
		}
		a := &said[i]
		why, cause := s.reason(a, timeout)
		if err := n.unvoted.Load(); a.NeedsMark() && err != nil {
			why, _ = explain(*err, timeout)
			why = fmt.Errorf("it has served its quarantine and cannot be given its vote back: %w", why)
		}
		if raise.has(i) {
			why = fmt.Errorf("it has granted the lock, but not taken its token: %w", why)
		}
		e.whys = append(e.whys, s.named(n, why).Error())
		switch {
		case cause != nil:
			final++
			finals[cause]++
		case a.Votes || n.late(a):
			able++
		case a.Code == vote.Failed:
		case a.NeedsMark():
			marks++
		default:
			waits = append(waits, a.Wait)
		}
	}
	spare := e.nodes - e.needed
	missing := e.needed - e.count
	slices.Sort(waits)
	switch {
	case finals[store.ErrFloor] > spare:
		return store.ErrFloor
	case finals[store.ErrFormat] > spare:
		e.cause = store.ErrFormat
	case final > spare || missing <= 0:
	case marks >= missing:
		e.admit = true
	case marks+len(waits) >= missing:
		e.wait = max(waits[missing-marks-1].Round(time.Second), time.Second)
	}
	return &store.Fault{Store: s.frame.Name, Final: final > spare, Busy: final <= spare && able >= missing, Err: e}
}

// errFinal is the cause of what will not get better by itself and has no name of its own.
var errFinal = errors.New("final")

// reason says why a node did not do as it was asked. Cause is not nil if trying again is of no use.
func (s *Store) reason(a *vote.Answer, timeout time.Duration) (why, cause error) {
	switch a.Code { //nolint:exhaustive // of the others it matters only whether the node votes
	case vote.Failed:
		if a.Err == nil {
			return fmt.Errorf("no answer in %v", timeout), nil
		}
		why, final := explain(a.Err, timeout)
		if final && !(s.credentials != nil && rediswire.LoginRefused(a.Err)) { // those may have just changed
			return why, errFinal
		}
		return why, nil
	case vote.Mismatch:
		return fmt.Errorf("it belongs to a deployment with max-ttl=%v, and this client has %v: all must have the same", a.MaxTTL, s.maxTTL), errFinal
	case vote.Newer:
		return errors.New("its record was written by a newer version of holdfast"), store.ErrFormat
	case vote.TooHigh:
		return errors.New("the token would be more than a day ahead of its clock"), store.ErrFloor
	case vote.Denied:
		return errors.New("somebody else has the lock there"), nil
	case vote.Buried:
		return errors.New("the lock was given back or broken there"), nil
	case vote.Refused:
		return errors.New("it refuses that in its state"), nil
	}
	switch {
	case a.Code == vote.Absent && a.Votes:
		return errors.New("the lock has run out there"), nil
	case a.Votes:
		return errors.New("it did not count"), nil
	case a.NeedsMark():
		return errors.New("it has served its quarantine and is just getting its vote back"), nil
	}
	return fmt.Errorf("it has no vote for another %v, since it was started again, or is new, or has lost its data", a.Wait.Round(time.Millisecond)), nil
}

// late says whether a node failed only because it did not answer in time: it is connected. A connection on which
// nothing is answered for some seconds is given up.
func (n *node) late(a *vote.Answer) bool {
	if a.Code != vote.Failed {
		return false
	}
	if _, connected := n.commands.Live(); !connected {
		return false
	}
	return a.Err == nil || isSlow(a.Err) || errors.Is(a.Err, context.DeadlineExceeded)
}

// isSlow reports whether an error of ours says that a node does not answer in time.
func isSlow(err error) bool {
	_, silent := errors.AsType[silence](err)
	return silent || errors.Is(err, errHangs) || errors.Is(err, errBusy) || errors.Is(err, errLate)
}

// A silence is how long a node did not answer.
type silence time.Duration

// Error says how long that was.
func (s silence) Error() string {
	return fmt.Sprintf("no answer in %v", time.Duration(s).Round(time.Millisecond))
}

// silentFor is err, or if it is a context's, how long the node was waited for: who waits seldom does so for as long as
// he may.
func silentFor(began time.Time, err error) error {
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		return silence(time.Since(began))
	}
	return err
}

// explain says what an error means in a sentence, and whether trying again is of no use.
func explain(err error, timeout time.Duration) (why error, final bool) {
	switch {
	case errors.Is(err, errUnusable): // it was something else when the store was opened, and may be again
		return err, false
	case isSlow(err), errors.Is(err, errShape):
		return err, false
	case errors.Is(err, errMad):
		return err, true
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return fmt.Errorf("no answer in %v", timeout), false
	}
	return rediswire.Explain(err)
}

// ill says why a node is of no use for now, whatever it was asked; nil: it is not ill.
func (s *Store) ill(a *vote.Answer) error {
	if a.Code != vote.Failed && a.Code != vote.Mismatch && a.Code != vote.Newer {
		return nil
	}
	why, _ := s.reason(a, healthTimeout)
	return why
}

// nodeError is what one node said, with its name.
func (s *Store) nodeError(n *node, a *vote.Answer) error {
	why, _ := s.reason(a, healthTimeout)
	return s.named(n, why)
}

// named says which node an error is of.
func (s *Store) named(n *node, why error) error {
	return fmt.Errorf("%s: %s", n.address, s.frame.MaskText(why.Error()))
}

// warn logs something about a node.
func (s *Store) warn(n *node, message string, args ...any) {
	for i, arg := range args {
		if err, ok := arg.(error); ok {
			args[i] = s.frame.MaskText(err.Error())
		}
	}
	s.logger.Warn("holdfast: "+message, append([]any{"node", n.address}, args...)...)
}

// settled looks which nodes count for a lock that was renewed, and warns when that changes. The caller has mu.
func (b *bid) settled() {
	s := b.store
	for i, n := range s.nodes {
		if b.tally.counts.has(i) {
			if n.missed.CompareAndSwap(true, false) {
				s.logger.Info("holdfast: a node counts again for locks that are held", "node", n.address)
			}
			continue
		}
		var a vote.Answer
		if b.tally.said != nil {
			a = b.tally.said[i]
		}
		own := a.Code == vote.Denied || a.Code == vote.Buried // it is about this lock alone
		if own && b.strange || !own && !n.missed.CompareAndSwap(false, true) {
			continue
		}
		b.strange = b.strange || own
		why, _ := s.reason(&a, s.rules.Timeout(b.ttl))
		s.warn(n, "a lock is in jeopardy: not all nodes count",
			"why", why, "counted", b.claim.Counted(), "nodes", len(s.nodes), "needed", s.rules.Majority())
	}
}
