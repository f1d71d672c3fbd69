package otelholdfast

import (
	"fmt"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/holdfast-go/holdfast"
)

// An Option is a setting of an Observer. A wrong one is an error of New.
type Option func(*config)

type config struct {
	meters  metric.MeterProvider
	tracers trace.TracerProvider
	name    func(string) string
	err     error // the first thing that is wrong
}

// MeterProvider sets where metrics go. Without it, that is the global one.
func WithMeterProvider(p metric.MeterProvider) Option {
	return func(c *config) { c.meters = p; c.wrong("MeterProvider(nil)", p == nil) }
}

// TracerProvider sets where traces go. Without it, that is the global one.
func WithTracerProvider(p trace.TracerProvider) Option {
	return func(c *config) { c.tracers = p; c.wrong("TracerProvider(nil)", p == nil) }
}

// NameAttribute puts the attribute holdfast.name on metrics, with what f makes of a lock's name; where that is
// empty, the attribute is left out. Without this option no metric has it: names are often made of ids, such as
// inventory:42, and every different value is a time series of its own. So f is to have few results: the part
// before the colon, say, or the name itself where there are few. Spans have the full name in any case.
//
// It is called in the middle of things, by many goroutines: f must be quick, and must not take locks.
func WithNameAttribute(f func(name string) string) Option {
	return func(c *config) { c.name = f; c.wrong("NameAttribute(nil)", f == nil) }
}

func (c *config) wrong(option string, is bool) {
	if is && c.err == nil {
		c.err = fmt.Errorf("%w: %s", holdfast.ErrBadOption, option)
	}
}

func configure(options []Option) (*config, error) {
	c := &config{meters: otel.GetMeterProvider(), tracers: otel.GetTracerProvider()}
	for _, o := range options {
		if o == nil {
			c.wrong("a nil Option", true)
			continue
		}
		o(c)
	}
	return c, c.err
}
