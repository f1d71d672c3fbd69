package otelholdfast

import (
	"fmt"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/holdfast-go/holdfast"
)

// An Option is a setting of an Observer. A wrong option is an error of New.
type Option func(*config)

type config struct {
	meters  metric.MeterProvider
	tracers trace.TracerProvider
	name    func(string) string
	err     error // the first error
}

// WithMeterProvider sets the provider of meters. The default is the global one.
func WithMeterProvider(p metric.MeterProvider) Option {
	return func(c *config) { c.meters = p; c.wrong("MeterProvider(nil)", p == nil) }
}

// WithTracerProvider sets the provider of tracers. The default is the global one.
func WithTracerProvider(p trace.TracerProvider) Option {
	return func(c *config) { c.tracers = p; c.wrong("TracerProvider(nil)", p == nil) }
}

// WithNameAttribute adds the attribute holdfast.name to metrics, with the value that f returns for a lock's name, or
// none if that is empty. Without this option no metric has the attribute: names often contain ids, such as
// inventory:42, and every different value is a time series of its own. So f should have few results: for example the
// part before the colon, or the name itself if there are few. Spans have the full name in any case.
//
// f is called by many goroutines while locks are acquired and released: it must be quick, and must not acquire locks.
func WithNameAttribute(f func(name string) string) Option {
	return func(c *config) { c.name = f; c.wrong("NameAttribute(nil)", f == nil) }
}

// wrong notes an error about an option if the condition holds. The first error counts.
func (c *config) wrong(option string, is bool) {
	if is && c.err == nil {
		c.err = fmt.Errorf("%w: %s", holdfast.ErrBadOption, option)
	}
}

// configure applies the options to the defaults. It returns the first error about an option.
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
