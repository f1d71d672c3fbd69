package storetest

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/store"
)

// A probe reads an empty queue again and again, with a client of its own: while the server is stalled, it does not
// respond.
type probe struct {
	store store.Store

	mu    sync.Mutex
	sent  time.Time                   // when the read that is under way was sent; zero between reads
	worst map[*time.Duration]struct{} // the longest response time that each observer has seen
}

// startProbe returns a probe of the harness's server that runs until the test is over.
func startProbe(t testing.TB, h Harness) *probe {
	s, _ := h.Open(t, "")
	s.Notify(func(store.ID, store.Status) {})
	p := &probe{store: s, worst: map[*time.Duration]struct{}{}}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { p.run(ctx) })
	t.Cleanup(func() {
		cancel()
		running.Wait()
		_ = s.Close() // the case about Close checks its error
	})
	return p
}

// run reads until ctx is done. Errors are as good as responses: a server that is restarted refuses connections.
func (p *probe) run(ctx context.Context) {
	ticker := time.NewTicker(5 * beat)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
		p.mu.Lock()
		p.sent = time.Now()
		p.mu.Unlock()
		_, _ = p.store.Queue(ctx, "storetest/probe")
		p.mu.Lock()
		for worst := range p.worst {
			*worst = max(*worst, time.Since(p.sent))
		}
		p.sent = time.Time{}
		p.mu.Unlock()
	}
}

// observe observes the server until end is called, which returns how long it took at most to respond, or for how long
// it has not responded yet.
func (p *probe) observe() (end func() time.Duration) {
	worst := new(time.Duration)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.worst[worst] = struct{}{}
	return func() time.Duration {
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.worst, worst)
		if !p.sent.IsZero() {
			return max(*worst, time.Since(p.sent))
		}
		return *worst
	}
}
