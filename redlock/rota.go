package redlock

import (
	"context"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/internal/agenda"
)

// A rota wakes machines when the time has come for which they asked. One timer serves all of a store.
type rota struct {
	began time.Time // from which times are counted

	mu    sync.Mutex
	due   agenda.Agenda[sleeper]
	timer *time.Timer
	rings int64 // when the timer goes off; 0: it does not
}

// A sleeper is woken.
type sleeper interface {
	agenda.Entry
	standsAt() int
	wake(now time.Duration)
}

// A place is where a sleeper stands on the agenda. The rota's mu guards it.
type place struct{ at int }

// offDuty is the place of one that is not to be woken.
func offDuty() place { return place{agenda.Off} }

// StandAt implements agenda.Entry.
func (p *place) StandAt(i int) { p.at = i }

func (p *place) standsAt() int { return p.at }

func newRota() *rota {
	// A moment ago: 0 is for no time at all.
	r := &rota{began: time.Now().Add(-time.Second), timer: time.NewTimer(time.Hour)}
	r.timer.Stop()
	return r
}

// since is a time as machines count it.
func (r *rota) since(t time.Time) time.Duration { return t.Sub(r.began) }

// now is the time as machines count it.
func (r *rota) now() time.Duration { return time.Since(r.began) }

// set says when x is to be woken; 0: not at all. The timer is not put off for what is later than it: it rings once for
// nothing, which is less work than to move it for each lock that is taken.
func (r *rota) set(x sleeper, when time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch at := x.standsAt(); {
	case when == 0 && at == agenda.Off:
		return
	case when == 0:
		r.due.Remove(at)
		return
	case at == agenda.Off:
		r.due.Add(x, int64(when))
	default:
		r.due.Move(at, int64(when))
	}
	if r.rings == 0 || int64(when) < r.rings {
		r.ring(int64(when))
	}
}

// ring sets the timer. The caller has mu.
func (r *rota) ring(when int64) {
	r.rings = when
	r.timer.Reset(time.Duration(when) - r.now())
}

// run wakes who is due until life ends.
func (r *rota) run(life context.Context) {
	defer r.timer.Stop()
	for {
		select {
		case <-life.Done():
			return
		case <-r.timer.C:
		}
		now := r.now()
		for _, x := range r.take(now) {
			x.wake(now)
		}
	}
}

// take takes who is due off the agenda, and sets the timer for the next.
func (r *rota) take(now time.Duration) (due []sleeper) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.rings = 0
	for len(r.due) > 0 {
		x, when := r.due.First()
		if when > int64(now) {
			r.ring(when)
			break
		}
		r.due.Remove(0)
		due = append(due, x)
	}
	return due
}
