package redisstore

import (
	"errors"
	"fmt"
	"strings"

	"github.com/holdfast-go/holdfast/internal/rediswire"
	"github.com/holdfast-go/holdfast/store"
)

// explain says what went wrong in a sentence, and whether trying again is of no use.
func explain(err error) (why error, final bool) {
	var lost *lostError
	var unacked *unackedError
	switch {
	case errors.As(err, &unacked):
		return err, false
	case errors.As(err, &lost):
		return lost, lost.final
	case errors.Is(err, errUnknown):
		return err, true
	case errors.Is(err, errUnusable) || errors.Is(err, errNoNode):
		return err, false // a replica can become the master
	}
	return rediswire.Explain(err)
}

// A lostError says why nobody can say where the server is.
type lostError struct {
	what  string
	whys  []error // one for each who was asked
	final bool    // whether trying again is of no use with any of them
}

func newLost(what string) *lostError { return &lostError{what: what, final: true} }

// add notes why one did not answer.
func (e *lostError) add(who string, err error) {
	why, final := explain(err)
	e.whys = append(e.whys, fmt.Errorf("%s: %w", who, why))
	e.final = e.final && final
}

func (e *lostError) Error() string {
	whys := make([]string, len(e.whys))
	for i, why := range e.whys {
		whys[i] = why.Error()
	}
	return e.what + ": " + strings.Join(whys, "; ")
}

// explain is explain for what a node of a cluster says of a slot that is on its way.
func (s *Store) explain(err error) (why error, final bool) {
	if s.cluster != nil && (isMoving(err) || strings.HasPrefix(err.Error(), "MOVED")) {
		return fmt.Errorf("%w: %w", errMoving, err), false
	}
	return explain(err)
}

// badMark is the error of a mark that nobody can have counted up to.
func (s *Store) badMark(at *shelf, mark string) error {
	return store.BadMark(fmt.Sprintf("the key %q in %s", at.mark, s.frame.Name), mark)
}

// refused turns a word of a script about the line of a name into an error.
func (s *Store) refused(word, name string) error { return s.refusedKey(word, s.keys.line(name)) }

// refusedKey turns a word of a script about a key into an error.
func (s *Store) refusedKey(word, key string) error {
	switch word {
	case "floor":
		return store.ErrFloor
	case "newer":
		return fmt.Errorf("%w: the key %s", store.ErrFormat, store.Quote(key))
	case "foreign":
		err := fmt.Errorf("the key %s holds what no version of holdfast has written", store.Quote(key))
		return &store.Fault{Store: s.frame.Name, Final: true, Err: err}
	}
	return &store.Fault{Store: s.frame.Name, Err: fmt.Errorf("%w: %.100q", errShape, word)}
}
