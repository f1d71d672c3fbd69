package redisstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/internal/rediswire"
	"github.com/holdfast-go/holdfast/store/frame"
)

// explain is the function explain for a store with these settings.
func (s *settings) explain(err error) (why error, final bool) {
	why, final = explain(err)
	if s.credentials != nil && rediswire.LoginRefused(err) {
		final = false // the credentials may have just changed
	}
	return why, final
}

// explain returns what an error means in a sentence, and whether a retry is useless.
func explain(err error) (why error, final bool) {
	var lost *unlocatedError
	var unacked *unackedError
	switch {
	case errors.As(err, &lost):
		return lost, lost.final
	case errors.Is(err, errUnknown):
		return err, true
	case errors.As(err, &unacked), errors.Is(err, errMoving), errors.Is(err, errNoNode), errors.Is(err, errBehind):
		return err, false
	case errors.Is(err, errUnusable):
		return err, false // a replica can become the master
	}
	return rediswire.Explain(err)
}

// An unlocatedError reports that no server named the one that keeps the data.
type unlocatedError struct {
	what    string
	label   string   // precedes the address of a server
	whys    []string // one for each server
	final   bool     // whether a retry is useless with all of them
	explain func(error) (why error, final bool)
}

// newUnlocated returns an error without reasons yet.
func newUnlocated(what, label string, explain func(error) (error, bool)) *unlocatedError {
	return &unlocatedError{what: what, label: label, final: true, explain: explain}
}

// add notes why a server did not respond.
func (e *unlocatedError) add(address string, err error) {
	why, final := e.explain(err)
	e.whys = append(e.whys, fmt.Sprintf("%s%s: %v", e.label, address, why))
	e.final = e.final && final
}

func (e *unlocatedError) Error() string { return e.what + ": " + strings.Join(e.whys, "; ") }

// queryAll queries several servers at once. It ends when all have responded, after its patience, or after the time that
// enough grants the other servers: zero while the responses are not enough. It notes in lost why servers did not
// respond.
func queryAll[T any](ctx context.Context, f *frame.Frame, patience time.Duration, lost *unlocatedError,
	addresses []string, ask func(ctx context.Context, address string) (T, error),
	enough func(said []T) time.Duration) (said []T) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	type reply struct {
		from string
		said T
		err  error
	}
	replies := make(chan reply, len(addresses))
	for _, address := range addresses {
		f.Go(func() { // one that hangs delays nothing
			said, err := ask(ctx, address)
			replies <- reply{address, said, err}
		})
	}
	silent := slices.Clone(addresses)
	var end <-chan time.Time
	for len(silent) > 0 && ctx.Err() == nil {
		select {
		case r := <-replies:
			if ctx.Err() != nil {
				break // the context is why it failed
			}
			silent = slices.DeleteFunc(silent, func(address string) bool { return address == r.from })
			if r.err != nil {
				lost.add(r.from, r.err)
			} else if said = append(said, r.said); end == nil && enough(said) > 0 {
				end = time.After(enough(said))
			}
		case <-end:
			return said
		case <-ctx.Done():
		}
	}
	for _, address := range silent {
		lost.add(address, fmt.Errorf("no response in %v", patience))
	}
	return said
}
