package redisstore

import (
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/holdfast-go/holdfast/store"
)

// plainSettings are what options and parameters of the URL set for plain mode.
type plainSettings struct {
	on     bool
	prefix string // put before names as it is
	retry  time.Duration
	drift  float64
	value  func(store.Claim) string
}

// What plain mode does unless it is told otherwise.
const (
	defaultRetry = 100 * time.Millisecond
	defaultDrift = 0.01
)

// forPlain are the settings of plain mode, to be changed.
func (s *settings) forPlain() *plainSettings {
	if s.plain == nil {
		s.plain = &plainSettings{retry: defaultRetry, drift: defaultDrift}
	}
	return s.plain
}

// plainMode is the last option of NewPlain.
func plainMode(s *settings) {
	p := s.forPlain()
	p.on = true
	p.prefix, s.prefix = s.prefix, "" // of what is beside the locks there is one for all: prefixes may run together
}

// Retry is how long one who waits in plain mode pauses between two looks whether another library has given the lock back,
// by chance from half as long to half as long again. The default is 100 ms. It is for NewPlain.
func Retry(d time.Duration) Option { return func(s *settings) { s.forPlain().retry = d } }

// Drift is the part of the ttl by which a lease in plain mode is over before the server lets it run out, for clocks that
// differ in pace. The default is 0.01, as in other libraries. It is for NewPlain.
func Drift(part float64) Option { return func(s *settings) { s.forPlain().drift = part } }

// Value makes the value of a lock's key in plain mode, in place of Holdfast's own, for a program that others read or
// compare the value with. It is called once for each claim, when it joins. No two claims may ever get the same value, or one
// could give back what the other holds; the claim's ID is what makes them differ. Whoever looks at such a lock does not
// see its owner, nor can it be broken. It must not call the store. It is for NewPlain.
func Value(of func(store.Claim) string) Option { return func(s *settings) { s.forPlain().value = of } }

// checkMode refuses settings that do not go together.
func (s *Store) checkMode() error {
	p := s.plain
	switch {
	case p == nil:
		return nil
	case s.cluster != nil:
		return fmt.Errorf("%w: plain mode is for one server; mode=line, which is the default, also keeps locks in a cluster", store.ErrUnsupported)
	case !p.on:
		return fmt.Errorf("%w: Retry, Drift and Value are for plain mode (NewPlain)", store.ErrUnsupported)
	case s.guard != 0:
		return fmt.Errorf("%w: plain mode has no guard: other libraries would not keep to it; mode=line, which is the default, has one", store.ErrUnsupported)
	case p.retry <= 0:
		return errors.New("retry is a positive duration, as in retry=100ms")
	case !(p.drift >= 0 && p.drift <= 0.5):
		return errors.New("drift is a part of the ttl from 0 to 0.5, as in drift=0.01")
	case p.prefix != "":
		return store.CheckName(p.prefix)
	}
	return nil
}

// parseMode reads the parameters of a URL that are about the mode.
func (s *settings) parseMode(at store.Location) (err error) {
	switch at.Query.Get("mode") {
	case "plain":
		plainMode(s)
	case "", "line":
		if at.Query.Has("retry") || at.Query.Has("drift") {
			return errors.New("retry and drift are for mode=plain")
		}
		return nil
	default:
		return errors.New("mode is line or plain")
	}
	if at.Query.Has("retry") {
		if s.plain.retry, err = time.ParseDuration(at.Query.Get("retry")); err != nil {
			s.plain.retry = 0 // checkMode says what it should be
		}
	}
	if at.Query.Has("drift") {
		if s.plain.drift, err = strconv.ParseFloat(at.Query.Get("drift"), 64); err != nil {
			s.plain.drift = -1
		}
	}
	return nil
}
