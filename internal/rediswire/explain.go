package rediswire

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"

	"github.com/redis/rueidis"
)

// ErrCluster is the error for a node of a cluster where a single server is expected.
var ErrCluster = errors.New("it is a node of a cluster; name that with redis+cluster://")

// A refusal is an error reply of Redis: its first word, and its meaning for a store.
type refusal struct {
	word  string
	final bool
	means string
}

// refusals are matched in order. Those that pass by themselves, or that a failover fixes, are not final.
var refusals = []refusal{
	{"WRONGPASS", true, "it does not know this user and password"},
	{"NOAUTH", true, "it wants a password, and none was given"},
	{"called without any password configured", true, "a password was given, and it has none"},
	{"Client sent AUTH, but no password is set", true, "a password was given, and it has none"},
	{"NOPERM", true, "this user lacks a permission"},
	{"can't run this command or subcommand", true, "this user lacks a permission"}, // in a script of Redis 6
	{"can't access", true, "this user lacks a permission"},                         // the same
	{"can't publish to the channel", true, "this user lacks a permission"},         // in a script, up to Redis 7.0
	{"ACL failure in script", true, "this user lacks a permission"},
	{"DB index is out of range", true, "it has no database of this number"},
	{"value is not an integer", true, "the mark is not what it should be"},
	{"WRONGTYPE", true, "a key of another kind lies under one of our names"},
	{"undeclared key", true, "it refuses scripts that touch keys which were not named beforehand, " +
		"as those of a queue do; Dragonfly allows it with --default_lua_flags=allow-undeclared-keys"},
	{"command called from script", true, "it lacks a command that locks need"},
	{"not allowed from script", true, "it keeps scripts from a command that locks need"},
	{"cluster support disabled", true, "it is no node of a cluster; name it with redis://"},
	{"MOVED", true, ErrCluster.Error()},
	{"CROSSSLOT", true, ErrCluster.Error()},
	{"CLUSTERDOWN", false, "the cluster does not serve all slots now"},
	{"LOADING", false, "it is still loading its data"},
	{"MASTERDOWN", false, "it is a replica that has lost its master"},
	{"READONLY", false, ErrReplica.Error()},
	{"NOREPLICAS", false, "it has fewer replicas than it wants for a write"},
	{"MISCONF", false, "it cannot save its data, and refuses writes until it can"},
	{"OOM", false, "its memory is full"},
	{"BUSY", false, "it is busy with somebody's script"},
}

// repeated is the text before the arguments of an unknown command in the error of a server. The server truncates the
// arguments after 128 bytes and changes some, so that a password among them cannot be recognised.
const repeated = ", with args beginning with:"

// Explain returns an error in words for the user, and reports whether a retry is useless.
func Explain(err error) (why error, final bool) {
	if said, ok := refusalText(err); ok {
		for _, r := range refusals {
			if strings.HasPrefix(said, r.word) || strings.Contains(said, "-"+r.word) ||
				strings.Contains(r.word, " ") && strings.Contains(said, r.word) {
				return fmt.Errorf("%s: %w", r.means, err), r.final
			}
		}
		if said, _, repeats := strings.Cut(said, repeated); repeats {
			return fmt.Errorf("it refused: %s", said), false
		}
		return fmt.Errorf("it refused: %w", err), false
	}
	var unverified *tls.CertificateVerificationError
	var unknown x509.UnknownAuthorityError
	var host x509.HostnameError
	var record tls.RecordHeaderError
	var credentials *CredentialsError
	switch {
	case errors.As(err, &credentials):
		return err, false
	case rueidis.IsParseErr(err) || rueidis.IsRedisNil(err) || errors.Is(err, ErrNil):
		return fmt.Errorf("%w: %w", ErrShape, err), false
	case errors.Is(err, ErrHandshake):
		return fmt.Errorf("it cannot be reached: %w", err), false
	case errors.Is(err, ErrShape):
		return err, false
	case errors.As(err, &record):
		return fmt.Errorf("it does not speak TLS there (redis:// is without): %w", err), true
	case errors.As(err, &unverified) || errors.As(err, &unknown) || errors.As(err, &host):
		return fmt.Errorf("its certificate is not trusted: %w", err), true
	case errors.Is(err, rueidis.ErrClosing), strings.Contains(err.Error(), net.ErrClosed.Error()):
		// we have closed it ourselves, because it was of no use
		return fmt.Errorf("it cannot be reached: %w", ErrCut), false
	case isAlert(err):
		return fmt.Errorf("TLS was refused: %w", err), true
	}
	if errors.Is(err, context.DeadlineExceeded) { // of a dial, and not of the caller's context
		err = errors.New(err.Error())
	}
	return fmt.Errorf("it cannot be reached: %w", err), false
}

// refusalText returns the text of a server's error reply, over a connection of the store's own or of rueidis. It
// reports false for any other error.
func refusalText(err error) (said string, ok bool) {
	if r, ok := IsRefusal(err); ok {
		return string(r), true
	}
	if e, ok := rueidis.IsRedisErr(err); ok {
		return e.Error(), true
	}
	return "", false
}

// Passes reports whether the server refuses everything for now. Then claims are not retried one by one, which would
// only add to its load.
func Passes(err error) bool {
	return slices.ContainsFunc(refusals,
		func(r refusal) bool { return !r.final && strings.Contains(err.Error(), r.word) })
}

// isAlert reports whether the peer ended TLS with an alert, as a server does that requires a certificate.
func isAlert(err error) bool {
	_, ok := errors.AsType[tls.AlertError](err)
	return ok || strings.Contains(err.Error(), "remote error: tls:")
}
