package otelholdfast_test

import (
	"testing"

	metricnoop "go.opentelemetry.io/otel/metric/noop"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/otelholdfast"
)

// BenchmarkLock measures the cost of one lock: its wait, its hold and its release.
func BenchmarkLock(b *testing.B) {
	provider := sdkmetric.NewMeterProvider(sdkmetric.WithReader(sdkmetric.NewManualReader()))
	meters := otelholdfast.WithMeterProvider(provider)
	tracers := otelholdfast.WithTracerProvider(sdktrace.NewTracerProvider())
	noMeters := otelholdfast.WithMeterProvider(metricnoop.NewMeterProvider())
	noTracers := otelholdfast.WithTracerProvider(noop.NewTracerProvider())
	for _, c := range []struct {
		name    string
		options []otelholdfast.Option
	}{
		{"nothing", []otelholdfast.Option{noMeters, noTracers}},
		{"metrics", []otelholdfast.Option{meters, noTracers}},
		{"traces", []otelholdfast.Option{noMeters, tracers}},
		{"both", []otelholdfast.Option{meters, tracers}},
	} {
		b.Run(c.name, func(b *testing.B) {
			o, err := otelholdfast.New(c.options...)
			if err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			for b.Loop() {
				ctx, waited := o.Waiting(b.Context(), mutex)
				_, held := o.Holding(ctx, mutex, token)
				waited(nil)
				held(holdfast.ErrNotHeld)
			}
		})
	}
}
