package exporter

import (
	"cmp"
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetrichttp"
	"go.opentelemetry.io/otel/metric"
	metricsdk "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/resource"
)

// A gauge is one metric. OpenTelemetry has its name with dots, and Prometheus with underscores and the unit.
type gauge struct {
	name, unit, help string
	whole            func(*snapshot) float64 // of the store
	group            func(*group) float64    // of each prefix; nil: it is of the store
}

// gauges are all metrics. They are stable: a change to a name counts as breaking. docs/operations.md lists them.
var gauges = []gauge{
	{name: "holdfast.store.up", help: "Whether the store can be used: 1 or 0. While it is 0, nothing is reported by " +
		"prefix.",
		whole: func(s *snapshot) float64 { return truth(s.up) }},
	{name: "holdfast.store.round_trip", unit: "s", help: "How long the last probe of the store took.",
		whole: func(s *snapshot) float64 { return s.trip.Seconds() }},
	{name: "holdfast.store.names", help: "Names that are in use.",
		whole: func(s *snapshot) float64 { return float64(s.names) }},
	{name: "holdfast.exporter.scrape_duration", unit: "s", help: "How long it took to count what is reported.",
		whole: func(s *snapshot) float64 { return s.took.Seconds() }},
	{name: "holdfast.store.held_locks", help: "Names that are held, by prefix.",
		group: func(g *group) float64 { return float64(g.locks) }},
	{name: "holdfast.store.held_claims", help: "Claims that hold, by prefix: a lock that several readers hold counts " +
		"several times.",
		group: func(g *group) float64 { return float64(g.held) }},
	{name: "holdfast.store.waiting_claims", help: "Claims that wait, by prefix.",
		group: func(g *group) float64 { return float64(g.waiting) }},
	{name: "holdfast.store.oldest_wait", unit: "s",
		help:  "How long the claim has waited that waits longest, by prefix.",
		group: func(g *group) float64 { return g.oldestWait.Seconds() }},
	{name: "holdfast.store.longest_hold", unit: "s", help: "How long the claim has held that holds longest, by prefix.",
		group: func(g *group) float64 { return g.longestHold.Seconds() }},
	{name: "holdfast.store.expiring_claims",
		help:  "Claims that hold and were not renewed for more than half of their ttl, by prefix.",
		group: func(g *group) float64 { return float64(g.expires) }},
}

func truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// prometheusName returns the name of a metric as Prometheus has it.
func (g *gauge) prometheusName() string {
	name := strings.ReplaceAll(g.name, ".", "_")
	if g.unit == "s" {
		name += "_seconds"
	}
	return name
}

// Names returns the names of all metrics as Prometheus has them.
func Names() []string {
	names := []string{infoName}
	for i := range gauges {
		names = append(names, gauges[i].prometheusName())
	}
	return names
}

// infoName is the metric that names the store.
const infoName = "holdfast_store_info"

// A collector makes metrics of Prometheus of a snapshot for each scrape.
type collector struct {
	exporter *Exporter
	info     *prometheus.Desc
	descs    []*prometheus.Desc // of gauges
}

func newCollector(e *Exporter) *collector {
	c := &collector{exporter: e, info: prometheus.NewDesc(infoName, "The store that is reported on; always 1.",
		[]string{"store"}, nil)}
	for i := range gauges {
		var labels []string
		if gauges[i].group != nil {
			labels = []string{"prefix"}
		}
		c.descs = append(c.descs, prometheus.NewDesc(gauges[i].prometheusName(), gauges[i].help, labels, nil))
	}
	return c
}

// Describe implements prometheus.Collector.
func (c *collector) Describe(to chan<- *prometheus.Desc) {
	to <- c.info
	for _, d := range c.descs {
		to <- d
	}
}

// Collect implements prometheus.Collector.
func (c *collector) Collect(to chan<- prometheus.Metric) {
	s := c.exporter.snapshot()
	name := strings.ToValidUTF8(cmp.Or(s.store, "not opened yet"), "?")
	to <- prometheus.MustNewConstMetric(c.info, prometheus.GaugeValue, 1, name)
	for i, g := range gauges {
		if g.whole != nil {
			to <- prometheus.MustNewConstMetric(c.descs[i], prometheus.GaugeValue, g.whole(&s))
			continue
		}
		for j := range s.groups {
			group := &s.groups[j]
			to <- prometheus.MustNewConstMetric(c.descs[i], prometheus.GaugeValue, g.group(group), group.prefix)
		}
	}
}

// Handler serves /metrics, and /healthz, which is 200 while the store can be used and otherwise 503.
func (e *Exporter) Handler() http.Handler {
	registry := prometheus.NewRegistry()
	registry.MustRegister(newCollector(e))
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		if !e.Up() {
			http.Error(w, "the store cannot be used", http.StatusServiceUnavailable)
			return
		}
		io.WriteString(w, "ok\n") //nolint:errcheck // the client is gone
	})
	return mux
}

// Push pushes metrics to the OTLP receiver at a URL every so often, until stop is called, which pushes once more. A URL
// without a path means /v1/metrics. Headers and certificates are taken from the environment, as OpenTelemetry defines.
func (e *Exporter) Push(ctx context.Context, receiver string, every time.Duration) (
	stop func(context.Context) error, err error,
) {
	u, err := url.Parse(receiver)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, errors.New("no address to push metrics to: write http://HOST:4318 or https://HOST:4318")
	}
	if u.Path == "" || u.Path == "/" {
		u.Path = "/v1/metrics"
	}
	to, err := otlpmetrichttp.New(ctx, otlpmetrichttp.WithEndpointURL(u.String()))
	if err != nil {
		return nil, err
	}
	reader := metricsdk.NewPeriodicReader(to, metricsdk.WithInterval(every), metricsdk.WithTimeout(every))
	name := resource.NewSchemaless(attribute.String("service.name", "holdfast-exporter"))
	provider := metricsdk.NewMeterProvider(metricsdk.WithReader(reader), metricsdk.WithResource(name))
	if err := e.observe(provider.Meter("github.com/holdfast-go/holdfast/internal/exporter")); err != nil {
		return nil, err
	}
	return provider.Shutdown, nil
}

// observe makes instruments of a meter that are observed together.
func (e *Exporter) observe(meter metric.Meter) error {
	instruments := make([]metric.Float64ObservableGauge, len(gauges))
	all := make([]metric.Observable, len(gauges))
	for i, g := range gauges {
		var err error
		instruments[i], err = meter.Float64ObservableGauge(g.name, metric.WithUnit(cmp.Or(g.unit, "1")),
			metric.WithDescription(g.help))
		if err != nil {
			return err
		}
		all[i] = instruments[i]
	}
	_, err := meter.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		s := e.snapshot()
		of := attribute.String("holdfast.store", s.store)
		for i, g := range gauges {
			if g.whole != nil {
				o.ObserveFloat64(instruments[i], g.whole(&s), metric.WithAttributes(of))
				continue
			}
			for j := range s.groups {
				o.ObserveFloat64(instruments[i], g.group(&s.groups[j]),
					metric.WithAttributes(of, attribute.String("holdfast.prefix", s.groups[j].prefix)))
			}
		}
		return nil
	}, all...)
	return err
}
