package otelholdfast_test

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/holdfast-go/holdfast/internal/leaks"
	"github.com/holdfast-go/holdfast/internal/testkit"
	"github.com/holdfast-go/holdfast/otelholdfast"
)

func TestMain(m *testing.M) { leaks.Main(m) }

// A rig is an observer, and what it has recorded.
type rig struct {
	*testing.T
	observer *otelholdfast.Observer
	reader   *metric.ManualReader
	spans    *tracetest.SpanRecorder
	tracers  *trace.TracerProvider
}

func newRig(t *testing.T, options ...otelholdfast.Option) *rig {
	t.Helper()
	r := &rig{T: t, reader: metric.NewManualReader(), spans: tracetest.NewSpanRecorder()}
	r.tracers = trace.NewTracerProvider(trace.WithSpanProcessor(r.spans))
	meters := metric.NewMeterProvider(metric.WithReader(r.reader))
	t.Cleanup(func() {
		testkit.Check(t, meters.Shutdown(context.Background()))
		testkit.Check(t, r.tracers.Shutdown(context.Background()))
	})
	options = append([]otelholdfast.Option{
		otelholdfast.WithMeterProvider(meters), otelholdfast.WithTracerProvider(r.tracers),
	}, options...)
	var err error
	if r.observer, err = otelholdfast.New(options...); err != nil {
		t.Fatal(err)
	}
	return r
}

// collect reads all metrics of the observer's scope.
func (r *rig) collect() []metricdata.Metrics {
	r.Helper()
	var all metricdata.ResourceMetrics
	testkit.Must(r, r.reader.Collect(context.Background(), &all))
	if len(all.ScopeMetrics) == 0 {
		return nil
	}
	if len(all.ScopeMetrics) != 1 || all.ScopeMetrics[0].Scope.Name != "github.com/holdfast-go/holdfast/otelholdfast" {
		r.Fatalf("other scopes than one's own: %v", all.ScopeMetrics)
	}
	return all.ScopeMetrics[0].Metrics
}

// metrics returns each series as text: wait.duration{op=lock outcome=granted store=memory} to "1 in 2s".
func (r *rig) metrics() map[string]string {
	r.Helper()
	got := map[string]string{}
	for _, m := range r.collect() {
		name := strings.TrimPrefix(m.Name, "holdfast.")
		switch data := m.Data.(type) {
		case metricdata.Sum[int64]:
			for _, p := range data.DataPoints {
				got[name+labels(p.Attributes)] = fmt.Sprint(p.Value)
			}
		case metricdata.Histogram[float64]:
			for _, p := range data.DataPoints {
				sum := time.Duration(p.Sum * float64(time.Second)).Round(time.Microsecond)
				got[name+labels(p.Attributes)] = fmt.Sprintf("%d in %v", p.Count, sum)
			}
		default:
			r.Errorf("%s is a %T", m.Name, data)
		}
	}
	return got
}

func labels(set attribute.Set) string {
	var all []string
	for _, a := range set.ToSlice() { // sorted by key
		all = append(all, strings.TrimPrefix(string(a.Key), "holdfast.")+"="+a.Value.String())
	}
	return "{" + strings.Join(all, " ") + "}"
}

// wantSome compares some metrics. Those that must not be there are "".
func (r *rig) wantSome(want map[string]string) (got map[string]string) {
	r.Helper()
	got = r.metrics()
	for name, value := range want {
		if got[name] != value {
			r.Errorf("%s is %q, want %q", name, got[name], value)
		}
	}
	return got
}

// wantMetrics compares all metrics.
func (r *rig) wantMetrics(want map[string]string) {
	r.Helper()
	for name, value := range r.wantSome(want) {
		if _, wanted := want[name]; !wanted {
			r.Errorf("%s is %q, and was not expected", name, value)
		}
	}
}

// span is the one ended span of this name.
func (r *rig) span(name string) trace.ReadOnlySpan {
	r.Helper()
	var found trace.ReadOnlySpan
	for _, s := range r.spans.Ended() {
		if s.Name() != name {
			continue
		}
		if found != nil {
			r.Fatalf("there is more than one span %s", name)
		}
		found = s
	}
	if found == nil {
		r.Fatalf("there is no span %s", name)
	}
	return found
}

// wantAttributes compares all attributes of a span or an event, without the prefix of their keys.
func (r *rig) wantAttributes(what string, attributes []attribute.KeyValue, want map[string]string) {
	r.Helper()
	got := map[string]string{}
	for _, a := range attributes {
		got[strings.TrimPrefix(string(a.Key), "holdfast.")] = a.Value.String()
	}
	if !maps.Equal(got, want) {
		r.Errorf("%s has the attributes\n%v, want\n%v", what, got, want)
	}
}
