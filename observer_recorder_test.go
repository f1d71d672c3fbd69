package holdfast_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
)

// A span is a wait or a lease, as an Observer saw it.
type span struct {
	holdfast.Request
	id    int
	token holdfast.Token  // of a lease
	given context.Context // what Waiting or Holding was given
	ends  int             // how often it was over
	why   error           // with what, the last time
}

// A note is one call of another method.
type note struct {
	holdfast.Request
	token holdfast.Token
	left  time.Duration
	err   error
}

// A renewal is one call of Renewed.
type renewal struct {
	store  string
	claims int
	took   time.Duration
	err    error
}

// A recorder is an Observer that writes down everything.
type recorder struct {
	mu         sync.Mutex
	waits      []*span
	holds      []*span
	renewals   []renewal
	jeopardies []note
	handed     []note
	deadlocks  []note
}

// The keys under which a recorder puts the number of the span into a context.
type (
	waitKey struct{}
	holdKey struct{}
)

func (o *recorder) begin(spans *[]*span, s *span) (id int, over func(error)) {
	o.mu.Lock()
	defer o.mu.Unlock()
	s.id = len(*spans) + 1
	*spans = append(*spans, s)
	return s.id, func(why error) {
		o.mu.Lock()
		defer o.mu.Unlock()
		s.ends++
		s.why = why
	}
}

func (o *recorder) Waiting(ctx context.Context, r holdfast.Request) (context.Context, func(error)) {
	id, over := o.begin(&o.waits, &span{Request: r, given: ctx})
	return context.WithValue(ctx, waitKey{}, id), over
}

func (o *recorder) Holding(ctx context.Context, r holdfast.Request, token holdfast.Token) (context.Context, func(error)) {
	id, over := o.begin(&o.holds, &span{Request: r, token: token, given: ctx})
	return context.WithValue(ctx, holdKey{}, id), over
}

func (o *recorder) Renewed(store string, claims int, took time.Duration, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.renewals = append(o.renewals, renewal{store, claims, took, err})
}

func (o *recorder) Jeopardy(r holdfast.Request, token holdfast.Token, left time.Duration, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.jeopardies = append(o.jeopardies, note{r, token, left, err})
}

func (o *recorder) HandedOver(r holdfast.Request, token holdfast.Token) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.handed = append(o.handed, note{Request: r, token: token})
}

func (o *recorder) Deadlocked(r holdfast.Request, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.deadlocks = append(o.deadlocks, note{Request: r, err: err})
}

// last is the youngest of spans.
func (o *recorder) last(spans *[]*span) span {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(*spans) == 0 {
		return span{}
	}
	return *(*spans)[len(*spans)-1]
}

// counts is how many waits and leases there were.
func (o *recorder) counts() (waits, holds int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.waits), len(o.holds)
}

// allOver checks that everything that began was over once.
func (o *recorder) allOver(t *testing.T) {
	t.Helper()
	o.mu.Lock()
	defer o.mu.Unlock()
	for what, spans := range map[string][]*span{"wait": o.waits, "lease": o.holds} {
		for _, s := range spans {
			if s.ends != 1 {
				t.Errorf("%s %d, %s %q, was over %d times, the last with %v", what, s.id, s.Op, s.Name, s.ends, s.why)
			}
		}
	}
}

// observed is a client with an Observer that writes everything down.
func (r *rig) observed(options ...holdfast.Option) (*holdfast.Client, *recorder) {
	o := &recorder{}
	return r.client(append(options, holdfast.Observe(o))...), o
}
