package otelholdfast_test

import (
	"context"
	"fmt"
	"log"

	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/memstore"
	"github.com/holdfast-go/holdfast/otelholdfast"
)

func Example() {
	ctx := context.Background()
	reader := metric.NewManualReader() // a program would have one that exports
	observer, err := otelholdfast.New(
		otelholdfast.WithMeterProvider(metric.NewMeterProvider(metric.WithReader(reader))))
	if err != nil {
		log.Fatal(err)
	}
	locks := holdfast.New(memstore.New(), holdfast.WithObserver(observer))
	defer locks.Close()

	lease, err := locks.Mutex("inventory:42").Lock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	_, err = locks.Mutex("inventory:42").TryLock(ctx) // it is taken
	fmt.Println(err != nil)
	lease.Unlock(ctx)

	var metrics metricdata.ResourceMetrics
	if err := reader.Collect(ctx, &metrics); err != nil {
		log.Fatal(err)
	}
	for _, m := range metrics.ScopeMetrics[0].Metrics {
		if h, ok := m.Data.(metricdata.Histogram[float64]); ok && m.Name == "holdfast.wait.duration" {
			for _, p := range h.DataPoints {
				op, _ := p.Attributes.Value("holdfast.op")
				outcome, _ := p.Attributes.Value("holdfast.outcome")
				fmt.Println(op.AsString(), outcome.AsString(), p.Count)
			}
		}
	}
	// Unordered output:
	// true
	// lock granted 1
	// trylock locked 1
}
