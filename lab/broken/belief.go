package broken

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/lab/history"
)

// A belief is a hold that is recorded, and checked until it is over.
type belief struct {
	*history.Belief
	ended  atomic.Bool // by end, rather than by a loss of the lock
	asking sync.WaitGroup
}

// believe begins to record that a player holds its lock. It returns false if the player does not believe so. It calls
// lost if the player finds out later that it no longer holds the lock.
func believe(r *history.Recorder, p *part, h handle, lost func()) (*belief, bool) {
	recorded, ok := r.Begin(history.Hold{Who: p.who(), Resource: p.Lock, Kind: p.Kind, Token: h.token()}, h.believes)
	if !ok {
		return nil, false
	}
	b := &belief{Belief: recorded}
	b.asking.Go(func() {
		for b.Check() {
			time.Sleep(time.Millisecond)
		}
		if !b.ended.Load() {
			lost()
		}
	})
	return b, true
}

// end records the end of the hold. Without a belief there is none.
func (b *belief) end() {
	if b == nil {
		return
	}
	b.ended.Store(true)
	b.End()
	b.asking.Wait()
}
