package redisstore

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/holdfast-go/holdfast/store"
)

// errShape says that an answer is not what Redis would say to this.
var errShape = errors.New("an answer of a shape that was not expected")

// A refusal is an error that Redis answers with: its first word, and what it means for us.
type refusal struct {
	word  string
	final bool
	means string
}

// refusals are looked for in order. Those that pass by themselves, or that a failover mends, are not final.
var refusals = []refusal{
	{"WRONGPASS", true, "it does not know this user and password"},
	{"NOAUTH", true, "it wants a password, and none was given"},
	{"called without any password configured", true, "a password was given, and it has none"},
	{"Client sent AUTH, but no password is set", true, "a password was given, and it has none"},
	{"NOPERM", true, "this user lacks a permission"},
	{"can't run this command or subcommand", true, "this user lacks a permission"}, // in a script of Redis 6
	{"can't access", true, "this user lacks a permission"},                         // the same
	{"ACL failure in script", true, "this user lacks a permission"},
	{"DB index is out of range", true, "it has no database of this number"},
	{"value is not an integer", true, "the mark is not what it should be"},
	{"WRONGTYPE", true, "a key of another kind lies under one of our names"},
	{"cluster support disabled", true, "it is no node of a Redis Cluster; name it with redis://"},
	{"MOVED", true, errCluster.Error()},
	{"CROSSSLOT", true, errCluster.Error()},
	{"CLUSTERDOWN", false, "the cluster does not serve all slots now"},
	{"LOADING", false, "it is still loading its data"},
	{"MASTERDOWN", false, "it is a replica that has lost its master"},
	{"READONLY", false, errReplica.Error()},
	{"NOREPLICAS", false, "it has fewer replicas than it wants for a write"},
	{"MISCONF", false, "it cannot save its data, and refuses writes until it can"},
	{"OOM", false, "its memory is full"},
	{"BUSY", false, "it is busy with somebody's script"},
}

// explain says what went wrong in a sentence, and whether trying again is of no use.
func explain(err error) (why error, final bool) {
	if e, ok := rueidis.IsRedisErr(err); ok {
		said := e.Error()
		for _, r := range refusals {
			if strings.HasPrefix(said, r.word) || strings.Contains(said, "-"+r.word) ||
				strings.Contains(r.word, " ") && strings.Contains(said, r.word) {
				return fmt.Errorf("%s: %w", r.means, err), r.final
			}
		}
		return fmt.Errorf("it refused: %w", err), false
	}
	var unverified *tls.CertificateVerificationError
	var unknown x509.UnknownAuthorityError
	var host x509.HostnameError
	var record tls.RecordHeaderError
	var lost *lostError
	var unacked *unackedError
	switch {
	case errors.As(err, &unacked):
		return err, false
	case errors.As(err, &lost):
		return lost, lost.final
	case errors.Is(err, errUnknown):
		return err, true
	case rueidis.IsParseErr(err) || rueidis.IsRedisNil(err):
		return fmt.Errorf("%w: %w", errShape, err), false
	case errors.Is(err, errHandshake):
		return fmt.Errorf("it cannot be reached: %w", err), false
	case errors.Is(err, errShape) || errors.Is(err, errUnusable) || errors.Is(err, errNoNode):
		return err, false // a replica can become the master
	case errors.As(err, &record):
		return fmt.Errorf("it does not speak TLS there (redis:// is without): %w", err), true
	case errors.As(err, &unverified) || errors.As(err, &unknown) || errors.As(err, &host):
		return fmt.Errorf("its certificate is not trusted: %w", err), true
	case errors.Is(err, rueidis.ErrClosing):
		return fmt.Errorf("the connection was closed: %w", err), false
	case isAlert(err):
		return fmt.Errorf("TLS was refused: %w", err), true
	}
	return fmt.Errorf("it cannot be reached: %w", err), false
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

func (e *lostError) Error() string { return fmt.Sprintf("%s: %v", e.what, errors.Join(e.whys...)) }

// passes says whether the server refuses everything for now: to ask about each claim alone would only add to its trouble.
func passes(err error) bool {
	return slices.ContainsFunc(refusals, func(r refusal) bool { return !r.final && strings.Contains(err.Error(), r.word) })
}

// isAlert says whether the other side ended TLS with an alert, as a server does that wants a certificate.
func isAlert(err error) bool {
	_, ok := errors.AsType[tls.AlertError](err)
	return ok || strings.Contains(err.Error(), "remote error: tls:")
}

// fault makes an error of the store of what went wrong in a call with this context.
func (s *Store) fault(ctx context.Context, err error) error {
	if s.closed.Load() {
		return store.ErrClosed
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if _, already := errors.AsType[*store.Fault](err); already || errors.Is(err, store.ErrFormat) {
		return err
	}
	why, final := explain(err)
	if s.cluster != nil && (isMoving(err) || strings.HasPrefix(err.Error(), "MOVED")) {
		why, final = fmt.Errorf("%w: %w", errMoving, err), false
	}
	return &store.Fault{Store: s.called, Final: final, Err: s.masked(why)}
}

// hide notes a password.
func (s *Store) hide(secret string) {
	if secret != "" {
		s.secrets.Store(secret, true)
	}
}

// masked is an error without passwords: a server repeats what it does not understand. Longer ones come first: one may be
// the beginning of another.
func (s *Store) masked(err error) error {
	var secrets []string
	s.secrets.Range(func(secret, _ any) bool {
		secrets = append(secrets, secret.(string))
		return true
	})
	slices.SortFunc(secrets, func(a, b string) int { return len(b) - len(a) })
	for _, secret := range secrets {
		if text := err.Error(); strings.Contains(text, secret) {
			err = errors.New(strings.ReplaceAll(text, secret, "xxxxx"))
		}
	}
	return err
}

// silent is the fault of a call that was bounded by limit and not by its caller.
func (s *Store) silent(limit time.Duration) error {
	return &store.Fault{Store: s.called, Err: fmt.Errorf("no answer in %v", limit)}
}

// refused turns a word of a script about the line of a name into an error.
func (s *Store) refused(word, name string) error { return s.refusedKey(word, s.keys.line(name)) }

// refusedKey turns a word of a script about a key into an error.
func (s *Store) refusedKey(word, key string) error {
	switch word {
	case "mismatch":
		return store.ErrMismatch
	case "floor":
		return store.ErrFloor
	case "newer":
		return fmt.Errorf("%w: the key %q in %s", store.ErrFormat, key, s.called)
	case "foreign":
		return &store.Fault{Store: s.called, Final: true, Err: fmt.Errorf("the key %q holds what no version of holdfast has written", key)}
	}
	return &store.Fault{Store: s.called, Err: fmt.Errorf("%w: %.100q", errShape, word)}
}
