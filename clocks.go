package holdfast

import (
	"sync/atomic"
	"time"
)

// An instant is a moment on both clocks of this machine. It has passed when either clock says so: the monotonic
// clock stands still while a machine is suspended, and the wall clock can be set back. It is read without a
// lock while the keeper moves it on. A reader who sees one half moved and the other not is only too careful,
// because each half is compared by itself.
type instant struct{ mono, wall atomic.Int64 }

// set moves it to t, or to end if there is one and it is earlier. start is the moment that the monotonic half counts
// from.
func (i *instant) set(start, t time.Time, end *time.Time) {
	mono, wall := int64(t.Sub(start)), t.UnixNano()
	if end != nil {
		mono, wall = min(mono, int64(end.Sub(start))), min(wall, end.UnixNano())
	}
	i.mono.Store(mono)
	i.wall.Store(wall)
}

// lower moves it to t if that is earlier.
func (i *instant) lower(start, t time.Time) {
	i.mono.Store(min(i.mono.Load(), int64(t.Sub(start))))
	i.wall.Store(min(i.wall.Load(), t.UnixNano()))
}

func (i *instant) passed(start, now time.Time) bool {
	return int64(now.Sub(start)) >= i.mono.Load() || now.UnixNano() >= i.wall.Load()
}

// from is the instant as seen at now: how far away it is on the clock that gets there first.
func (i *instant) from(start, now time.Time) time.Time {
	left := min(i.mono.Load()-int64(now.Sub(start)), i.wall.Load()-now.UnixNano())
	return now.Add(time.Duration(left))
}
