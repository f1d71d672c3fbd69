package otelholdfast

import (
	"context"
	"errors"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/holdfast-go/holdfast"
)

// scope is the name of the instrumentation scope.
const scope = "github.com/holdfast-go/holdfast/otelholdfast"

// The attributes. Like the names of instruments and spans they are stable.
const (
	keyOp      = attribute.Key("holdfast.op")
	keyStore   = attribute.Key("holdfast.store")
	keyName    = attribute.Key("holdfast.name")
	keyOutcome = attribute.Key("holdfast.outcome")
	keyToken   = attribute.Key("holdfast.token")
	keyShared  = attribute.Key("holdfast.shared")
	keyHolder  = attribute.Key("holdfast.holder")
	keyLeft    = attribute.Key("holdfast.left")
	keyError   = attribute.Key("holdfast.error")
)

var (
	clientKind   = trace.WithSpanKind(trace.SpanKindClient)
	internalKind = trace.WithSpanKind(trace.SpanKindInternal)
)

// An Observer records what happens to locks as metrics and traces. Any number of clients can share one.
type Observer struct {
	holdfast.NopObserver // for methods that later versions add

	instruments
	tracer trace.Tracer
	series cache
	holds  sync.Map // leaseKey to *hold: the leases that have a span which is recorded
}

var _ holdfast.Observer = (*Observer)(nil)

// New returns an Observer. It returns an error if an option is wrong, or if an instrument cannot be made.
func New(options ...Option) (*Observer, error) {
	c, err := configure(options)
	if err != nil {
		return nil, err
	}
	o := &Observer{tracer: c.tracers.Tracer(scope), series: cache{name: c.name, known: map[seriesKey]*series{}}}
	if o.instruments, err = newInstruments(c.meters.Meter(scope)); err != nil {
		return nil, err
	}
	return o, nil
}

// A wait is one call that requests a lock.
type wait struct {
	observer *Observer
	series   *series
	ctx      context.Context // with its span
	span     trace.Span
	parent   trace.Span // the span of the caller
	began    time.Time
}

// waitKey is the key of the wait among a context's values. If two observers are notified of one lock, each finds its
// own wait.
type waitKey struct{ observer *Observer }

// Waiting implements holdfast.Observer.
func (o *Observer) Waiting(ctx context.Context, r holdfast.Request) (context.Context, func(error)) {
	w := &wait{observer: o, series: o.series.of(&r), parent: trace.SpanFromContext(ctx), began: time.Now()}
	// Samplers see only the attributes that a span has from its start.
	ctx, w.span = o.tracer.Start(ctx, "holdfast.wait", clientKind, trace.WithAttributes(
		keyName.String(r.Name), keyOp.String(r.Op), keyStore.String(r.Store), keyShared.Bool(r.Shared())))
	w.ctx = context.WithValue(ctx, waitKey{o}, w)
	o.waiters.Add(w.ctx, 1, w.series.plain.add...)
	return w.ctx, w.end
}

// end records the end of the wait.
func (w *wait) end(err error) {
	took, outcome := time.Since(w.began), waitOutcome(err)
	w.observer.waiters.Add(w.ctx, -1, w.series.plain.add...)
	w.observer.waitDuration.Record(w.ctx, took.Seconds(), w.series.with(outcome).record...)
	if w.span.IsRecording() {
		w.span.SetAttributes(keyOutcome.String(outcome.String()))
		// zero: the holder is not known
		if in, ok := errors.AsType[*holdfast.LockedError](err); ok && !in.Since.IsZero() {
			w.span.SetAttributes(keyHolder.String(in.Holder.String()))
		}
		fail(w.span, outcome, err)
	}
	w.span.End()
}

// A hold is one lease.
type hold struct {
	observer *Observer
	series   *series
	key      leaseKey
	ctx      context.Context // with its span
	span     trace.Span
	began    time.Time
}

// A leaseKey identifies a lease. A token alone does so only within one lock.
type leaseKey struct {
	store, name string
	token       holdfast.Token
}

// Holding implements holdfast.Observer.
func (o *Observer) Holding(ctx context.Context, r holdfast.Request, token holdfast.Token) (context.Context,
	func(error)) {
	h := &hold{observer: o, series: o.series.of(&r), key: leaseKey{r.Store, r.Name, token}, began: time.Now()}
	options := append(make([]trace.SpanStartOption, 0, 3), internalKind, trace.WithAttributes(
		keyName.String(r.Name), keyOp.String(r.Op), keyStore.String(r.Store), keyShared.Bool(token.Shared())))
	if w, ok := ctx.Value(waitKey{o}).(*wait); ok && w != nil {
		// The span of the hold is a sibling of that of the wait, not its child. A lease that begins under this one's
		// context, such as a downgraded one, must not use the wait as its own.
		ctx = context.WithValue(trace.ContextWithSpan(ctx, w.parent), waitKey{o}, (*wait)(nil))
		if sc := w.span.SpanContext(); sc.IsValid() {
			options = append(options, trace.WithLinks(trace.Link{SpanContext: sc}))
		}
	}
	h.ctx, h.span = o.tracer.Start(ctx, "holdfast.hold", options...)
	if h.span.IsRecording() {
		h.span.SetAttributes(keyToken.String(token.String()))
		o.holds.Store(h.key, h)
	}
	o.leases.Add(h.ctx, 1, h.series.plain.add...)
	return h.ctx, h.end
}

// end records the end of the lease.
func (h *hold) end(why error) {
	took := time.Since(h.began)
	o, outcome := h.observer, holdOutcome(why)
	o.holds.CompareAndDelete(h.key, h)
	o.leases.Add(h.ctx, -1, h.series.plain.add...)
	o.holdDuration.Record(h.ctx, took.Seconds(), h.series.with(outcome).record...)
	if outcome == lost {
		o.losses.Add(h.ctx, 1, h.series.plain.add...)
	}
	if h.span.IsRecording() {
		h.span.SetAttributes(keyOutcome.String(outcome.String()))
		fail(h.span, outcome, why)
	}
	h.span.End()
}

// fail marks a span as failed if its outcome is a failure. A lock that is held by another holder, a wait that reached
// its deadline or was cancelled, and a closed client are not failures: the program has requested them.
func fail(span trace.Span, o outcome, err error) {
	if o == failed || o == lost || o == deadlock {
		span.SetStatus(codes.Error, err.Error())
	}
}

// Renewed implements holdfast.Observer.
func (o *Observer) Renewed(store string, claims int, took time.Duration, err error) {
	outcome := renewed
	if err != nil {
		outcome = failed
	}
	options := o.series.of(&holdfast.Request{Store: store}).with(outcome)
	o.renewals.Add(context.Background(), int64(claims), options.add...)
	o.renewalDuration.Record(context.Background(), took.Seconds(), options.record...)
}

// Jeopardy implements holdfast.Observer.
func (o *Observer) Jeopardy(r holdfast.Request, token holdfast.Token, left time.Duration, err error) {
	ctx := context.Background()
	if v, ok := o.holds.Load(leaseKey{r.Store, r.Name, token}); ok {
		h := v.(*hold)
		ctx = h.ctx
		event := []attribute.KeyValue{keyLeft.Float64(left.Seconds())}
		if err != nil {
			event = append(event, keyError.String(err.Error()))
		}
		h.span.AddEvent("holdfast.jeopardy", trace.WithAttributes(event...))
	}
	r.Op = "" // the store does not respond, whichever operation acquired the lock
	o.jeopardies.Add(ctx, 1, o.series.of(&r).plain.add...)
}

// HandedOver implements holdfast.Observer.
func (o *Observer) HandedOver(r holdfast.Request, _ holdfast.Token) {
	o.handovers.Add(context.Background(), 1, o.series.of(&r).plain.add...)
}

// Deadlocked implements holdfast.Observer.
func (o *Observer) Deadlocked(r holdfast.Request, _ error) {
	o.deadlocks.Add(context.Background(), 1, o.series.of(&r).plain.add...)
}

// Retried implements holdfast.Observer.
func (o *Observer) Retried(store string, _ error) {
	o.retries.Add(context.Background(), 1, o.series.of(&holdfast.Request{Store: store}).plain.add...)
}
