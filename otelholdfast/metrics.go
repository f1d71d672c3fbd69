package otelholdfast

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/holdfast-go/holdfast"
)

// The instruments. Their names are stable: dashboards and alerts use them. The tables in doc.go and
// docs/operations.md list them.
type instruments struct {
	waitDuration, holdDuration, renewalDuration                 metric.Float64Histogram
	renewals, jeopardies, losses, deadlocks, handovers, retries metric.Int64Counter
	leases, waiters                                             metric.Int64UpDownCounter
}

// Bounds of histograms, in seconds. The default ones are for milliseconds.
var (
	callBounds = []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10}
	waitBounds = append(callBounds[:len(callBounds):len(callBounds)], 30, 60, 300)
	holdBounds = append(waitBounds[:len(waitBounds):len(waitBounds)], 900, 3600, 14400)
)

// newInstruments makes the instruments of a meter. The error joins those of all instruments that could not be made.
func newInstruments(m metric.Meter) (i instruments, err error) {
	failed := func(name string, e error) {
		if e != nil {
			err = errors.Join(err, fmt.Errorf("holdfast: instrument %s: %w", name, e))
		}
	}
	histogram := func(name, description string, bounds []float64) metric.Float64Histogram {
		h, err := m.Float64Histogram(name, metric.WithDescription(description), metric.WithUnit("s"),
			metric.WithExplicitBucketBoundaries(bounds...))
		failed(name, err)
		return h
	}
	counter := func(name, description, unit string) metric.Int64Counter {
		c, err := m.Int64Counter(name, metric.WithDescription(description), metric.WithUnit(unit))
		failed(name, err)
		return c
	}
	now := func(name, description, unit string) metric.Int64UpDownCounter {
		c, err := m.Int64UpDownCounter(name, metric.WithDescription(description), metric.WithUnit(unit))
		failed(name, err)
		return c
	}
	i = instruments{
		waitDuration:    histogram("holdfast.wait.duration", "Wait for a lock.", waitBounds),
		holdDuration:    histogram("holdfast.hold.duration", "How long a lock was held.", holdBounds),
		renewalDuration: histogram("holdfast.renewal.duration", "Duration of a call that renews claims.", callBounds),

		renewals:   counter("holdfast.renewals", "Claims of calls that renew.", "{claim}"),
		jeopardies: counter("holdfast.jeopardies", "Failed renewals of held leases.", "{jeopardy}"),
		losses:     counter("holdfast.losses", "Leases that were lost before Unlock.", "{lease}"),
		deadlocks:  counter("holdfast.deadlocks", "Waits that ended because of a deadlock.", "{deadlock}"),
		handovers:  counter("holdfast.handovers", "Locks that were handed over inside the process.", "{handover}"),
		retries:    counter("holdfast.retries", "Calls that the server rolled back, and that were repeated.", "{call}"),

		leases:  now("holdfast.leases", "Locks that are held now.", "{lease}"),
		waiters: now("holdfast.waiters", "Calls that request a lock now.", "{waiter}"),
	}
	return i, err
}

// A series is the attributes that requests of one kind have in common, prepared for recording.
type series struct {
	attributes []attribute.KeyValue
	plain      *recording
	outcomes   [outcomes]atomic.Pointer[recording] // made when first used
}

// A recording is the options of a measurement, in the forms that both kinds of instruments need.
type recording struct {
	add    []metric.AddOption
	record []metric.RecordOption
}

// newRecording returns the options that record with these attributes.
func newRecording(attributes []attribute.KeyValue) *recording {
	o := metric.WithAttributeSet(attribute.NewSet(attributes...))
	return &recording{add: []metric.AddOption{o}, record: []metric.RecordOption{o}}
}

// with returns the recording of an outcome.
func (s *series) with(o outcome) *recording {
	if r := s.outcomes[o].Load(); r != nil {
		return r
	}
	n := len(s.attributes)
	r := newRecording(append(s.attributes[:n:n], keyOutcome.String(o.String())))
	s.outcomes[o].Store(r)
	return r
}

// maxSeries bounds the cache, if there are many names in spite of the advice. Further series are made for each
// measurement.
const maxSeries = 1000

// A cache keeps series, so that attributes are not made again for each measurement.
type cache struct {
	name func(string) string // the value of holdfast.name for a lock's name; nil: no attribute

	mu    sync.RWMutex
	known map[seriesKey]*series
}

type seriesKey struct{ op, store, name string }

// of returns the series of a request.
func (c *cache) of(r *holdfast.Request) *series {
	key := seriesKey{op: r.Op, store: r.Store}
	if c.name != nil && r.Name != "" {
		key.name = c.name(r.Name)
	}
	c.mu.RLock()
	s := c.known[key]
	c.mu.RUnlock()
	if s != nil {
		return s
	}
	return c.add(key)
}

func (c *cache) add(key seriesKey) *series {
	s := new(series)
	for _, a := range []attribute.KeyValue{keyOp.String(key.op), keyStore.String(key.store), keyName.String(key.name)} {
		if a.Value.AsString() != "" {
			s.attributes = append(s.attributes, a)
		}
	}
	s.plain = newRecording(s.attributes)
	c.mu.Lock()
	defer c.mu.Unlock()
	if known := c.known[key]; known != nil {
		return known
	}
	if len(c.known) < maxSeries {
		c.known[key] = s
	}
	return s
}
