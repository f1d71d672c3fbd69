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

// A noMajority is the error of a call without a majority. It has a reason for each node that did not carry out the
// request.
type noMajority struct {
	nodes, needed, count int
	whys                 []string
	wait                 time.Duration // if quarantine is the reason: how long until enough nodes vote
	admit                bool          // nodes have completed their quarantine, and are about to have their vote back
	cause                error         // of a final fault: its reason
}

// Error returns the counts and the reason of each node.
func (e *noMajority) Error() string {
	text := fmt.Sprintf("%d of %d nodes succeeded, and %d are needed", e.count, e.nodes, e.needed)
	if len(e.whys) == 0 {
		return text
	}
	if e.wait > 0 {
		text += fmt.Sprintf("; nodes are in quarantine for another %v: run `holdfast redlock init` if they are new",
			e.wait)
	}
	return text + ": " + strings.Join(e.whys, "; ")
}

// Unwrap returns the cause of a final fault.
func (e *noMajority) Unwrap() error { return e.cause }

// awaitsAdmission reports whether a call failed only because nodes do not have their vote back yet, which is in
// progress.
func awaitsAdmission(err error) bool {
	e, ok := errors.AsType[*noMajority](err)
	return ok && e.admit
}

// A nodeSet has a bit for each node.
type nodeSet uint64

func (s nodeSet) has(node int) bool { return s>>node&1 != 0 }
func (s nodeSet) count() int        { return bits.OnesCount64(uint64(s)) }

// all returns the set of all nodes.
func (s *Store) all() nodeSet { return 1<<len(s.nodes) - 1 }

// noMajority returns an error from the answers of nodes. Those in counts succeeded; those in raise had granted the lock
// and then received its token. The error is final if so many nodes refuse permanently that there is no majority without
// them. The store is busy if a majority votes, as far as is known, and some were too slow.
func (s *Store) noMajority(said []vote.Answer, counts, raise nodeSet, timeout time.Duration) error {
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
		if err := n.admitErr.Load(); a.NeedsMark() && err != nil {
			why, _ = explain(*err, timeout)
			why = fmt.Errorf("its quarantine is over, and it cannot be given its vote back: %w", why)
		}
		if raise.has(i) {
			why = fmt.Errorf("it has granted the lock, but not accepted its token: %w", why)
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

// errFinal is the cause of a permanent failure that has no error of its own.
var errFinal = errors.New("final")

// reason returns why a node did not carry out a request. cause is not nil if a retry is useless.
func (s *Store) reason(a *vote.Answer, timeout time.Duration) (why, cause error) {
	switch a.Code { //nolint:exhaustive // of the others it matters only whether the node votes
	case vote.Failed:
		if a.Err == nil {
			return &store.NoResponseError{After: timeout}, nil
		}
		why, final := explain(a.Err, timeout)
		if final && !(s.credentials != nil && rediswire.LoginRefused(a.Err)) { // those may have just changed
			return why, errFinal
		}
		return why, nil
	case vote.Mismatch:
		return fmt.Errorf("it belongs to a deployment with max-ttl=%v, and this client has %v: all must have the same",
			a.MaxTTL, s.maxTTL), errFinal
	case vote.Newer:
		return errors.New("its record was written by a newer version of holdfast"), store.ErrFormat
	case vote.TooHigh:
		return errors.New("the token would be more than a day ahead of its clock"), store.ErrFloor
	case vote.Denied:
		return errors.New("another client has the lock there"), nil
	case vote.Buried:
		return errors.New("the lock was released or broken there"), nil
	case vote.Refused:
		return errors.New("it refuses that in its state"), nil
	}
	switch {
	case a.Code == vote.Absent && a.Votes:
		return errors.New("the lock has expired there"), nil
	case a.Votes:
		return errors.New("it did not count"), nil
	case a.NeedsMark():
		return errors.New("its quarantine is over, and it is about to have its vote back"), nil
	}
	return fmt.Errorf("it has no vote for another %v, since it was restarted, is new, or has lost its data",
		a.Wait.Round(time.Millisecond)), nil
}

// late reports whether a node failed only because it did not respond in time, and is connected. A connection without
// any response for some seconds is closed.
func (n *node) late(a *vote.Answer) bool {
	if a.Code != vote.Failed {
		return false
	}
	if _, connected := n.commands.Live(); !connected {
		return false
	}
	return a.Err == nil || isSlow(a.Err) || errors.Is(a.Err, context.DeadlineExceeded)
}

// isSlow reports whether an error is one of ours for a node that does not respond in time.
func isSlow(err error) bool {
	_, silent := errors.AsType[silence](err)
	return silent || errors.Is(err, errHangs) || errors.Is(err, errBusy) || errors.Is(err, errLate)
}

// A silence is the time for which a node did not respond.
type silence time.Duration

// Error returns the text with the time.
func (s silence) Error() string {
	return fmt.Sprintf("no response in %v", time.Duration(s).Round(time.Millisecond))
}

// silenceOr returns err, or if it is an error of a context, a silence with the time since began: a call seldom waits
// for as long as its context allows.
func silenceOr(began time.Time, err error) error {
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		return silence(time.Since(began))
	}
	return err
}

// explain returns what an error means in a sentence, and whether a retry is useless.
func explain(err error, timeout time.Duration) (why error, final bool) {
	switch {
	case errors.Is(err, errUnusable): // it was something else when the store was opened, and may be again
		return err, false
	case isSlow(err), errors.Is(err, errShape):
		return err, false
	case errors.Is(err, errMarkTooHigh):
		return err, true
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return &store.NoResponseError{After: timeout}, false
	}
	return rediswire.Explain(err)
}

// failure returns why a node is failing, whatever was requested, or nil if it is not.
func (s *Store) failure(a *vote.Answer) error {
	if a.Code != vote.Failed && a.Code != vote.Mismatch && a.Code != vote.Newer {
		return nil
	}
	why, _ := s.reason(a, healthTimeout)
	return why
}

// nodeError returns the reason of one node, with its address.
func (s *Store) nodeError(n *node, a *vote.Answer) error {
	why, _ := s.reason(a, healthTimeout)
	return s.named(n, why)
}

// named adds the address of the node to an error, and masks passwords.
func (s *Store) named(n *node, why error) error {
	return fmt.Errorf("%s: %s", n.address, s.frame.MaskText(why.Error()))
}

// warn logs a warning about a node, with passwords masked.
func (s *Store) warn(n *node, message string, args ...any) {
	for i, arg := range args {
		if err, ok := arg.(error); ok {
			args[i] = s.frame.MaskText(err.Error())
		}
	}
	s.logger.Warn("holdfast: "+message, append([]any{"node", n.address}, args...)...)
}

// logCounted logs which nodes count for a lock that was renewed, when that changes. The caller holds mu.
func (b *localClaim) logCounted() {
	s := b.store
	for i, n := range s.nodes {
		if b.record.succeeded.has(i) {
			if n.missed.CompareAndSwap(true, false) {
				s.logger.Info("holdfast: a node counts again for locks that are held", "node", n.address)
			}
			continue
		}
		var a vote.Answer
		if b.record.replies != nil {
			a = b.record.replies[i]
		}
		own := a.Code == vote.Denied || a.Code == vote.Buried // it is about this lock alone
		if own && b.foreignLogged || !own && !n.missed.CompareAndSwap(false, true) {
			continue
		}
		b.foreignLogged = b.foreignLogged || own
		why, _ := s.reason(&a, s.rules.Timeout(b.ttl))
		s.warn(n, "a lock is in jeopardy: not all nodes count",
			"why", why, "counted", b.machine.Counted(), "nodes", len(s.nodes), "needed", s.rules.Majority())
	}
}
