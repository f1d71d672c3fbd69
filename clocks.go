package holdfast

import (
	"sync/atomic"
	"time"
)

// origin is the zero of monotonic times, which are in nanoseconds. It is a century ago, so that they are positive also
// by the fake clocks of tests, which begin in the past.
var origin = time.Now().Add(-100 * 365 * 24 * time.Hour)

// monoNow reads the monotonic clock.
func monoNow() int64 { return int64(time.Since(origin)) }

// mono returns t on the monotonic clock.
func mono(t time.Time) int64 { return int64(t.Sub(origin)) }

// An instant is a moment on both clocks of this machine. It has passed when either clock has passed it: the monotonic
// clock stands still while a machine is suspended, and the wall clock can be set back. It is read without a lock while
// the keeper changes it. A reader that sees only one half changed is merely too careful, because each half is compared
// by itself.
type instant struct{ mono, wall atomic.Int64 }

// set sets it to t, or to end if end is not nil and earlier.
func (i *instant) set(t time.Time, end *time.Time) {
	onMono, onWall := mono(t), t.UnixNano()
	if end != nil {
		onMono, onWall = min(onMono, mono(*end)), min(onWall, end.UnixNano())
	}
	i.mono.Store(onMono)
	i.wall.Store(onWall)
}

// lower sets it to t if t is earlier.
func (i *instant) lower(t time.Time) {
	i.mono.Store(min(i.mono.Load(), mono(t)))
	i.wall.Store(min(i.wall.Load(), t.UnixNano()))
}

// passed reports whether the instant has passed, by either clock.
func (i *instant) passed(now time.Time) bool {
	return mono(now) >= i.mono.Load() || now.UnixNano() >= i.wall.Load()
}

// from returns the instant as a time: now plus what is left on the clock that reaches it first.
func (i *instant) from(now time.Time) time.Time {
	left := min(i.mono.Load()-mono(now), i.wall.Load()-now.UnixNano())
	return now.Add(time.Duration(left))
}
