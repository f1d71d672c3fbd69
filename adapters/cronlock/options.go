package cronlock

import (
	"cmp"
	"fmt"
	"log/slog"
	"time"

	"github.com/holdfast-go/holdfast"
)

// An Option is a setting of a Once or a Skip.
type Option func(*config)

type config struct {
	logger   *slog.Logger
	location *time.Location
	err      error // the first error
}

// WithLogger sets the logger for what fails. The default is slog's.
func WithLogger(l *slog.Logger) Option {
	return func(c *config) { c.logger = l; c.wrong("WithLogger(nil)", l == nil) }
}

// WithLocation sets the time zone of a Once whose cron.Cron was made with cron.WithLocation. The default is the local
// one, as cron's is. It matters for schedules that do not name a time zone, and must be the same on all machines.
func WithLocation(l *time.Location) Option {
	return func(c *config) { c.location = l; c.wrong("WithLocation(nil)", l == nil) }
}

// wrong notes an error about an option if the condition holds. The first error counts.
func (c *config) wrong(option string, is bool) {
	if is && c.err == nil {
		c.err = fmt.Errorf("%w: %s", holdfast.ErrBadOption, option)
	}
}

// configure applies the options to the defaults. It returns the first error about an option.
func configure(options []Option) (*config, error) {
	c := &config{location: time.Local}
	for _, o := range options {
		if o == nil {
			c.wrong("a nil Option", true)
			continue
		}
		o(c)
	}
	return c, c.err
}

// log returns the logger. The default is looked up at each use, since a program may set it late.
func (c *config) log() *slog.Logger { return cmp.Or(c.logger, slog.Default()) }
