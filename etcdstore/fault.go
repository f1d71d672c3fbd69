package etcdstore

import (
	"errors"
	"fmt"
	"net"
	"strings"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
)

// A refusal is an error of etcd with a clearer text than etcd's own.
type refusal struct {
	err   error
	final bool
	means string
}

var refusals = []refusal{
	{rpctypes.ErrAuthFailed, true, "user or password is wrong"},
	{rpctypes.ErrUserEmpty, true, "it wants a user and a password"},
	{rpctypes.ErrUserNotFound, true, "it does not know this user"},
	{rpctypes.ErrPermissionDenied, true, "this user lacks a permission"},
	{rpctypes.ErrInvalidAuthToken, false, "the login has run out"},
	{rpctypes.ErrAuthOldRevision, false, "users or roles have just changed"},
	{rpctypes.ErrNoSpace, false, "its database is full (alarm NOSPACE): compact, defragment and disarm the alarm"},
	{rpctypes.ErrCorrupt, true, "its data is corrupt (alarm CORRUPT)"},
	{rpctypes.ErrNoLeader, false, "it has no leader: more than half of its members must be there"},
	{rpctypes.ErrNotLeader, false, "it has just lost its leader"},
	{rpctypes.ErrLeaderChanged, false, "it has just got another leader"},
	{rpctypes.ErrTimeout, false, "it did not come to a decision in time; it may have no leader"},
	{rpctypes.ErrTimeoutDueToLeaderFail, false, "it did not come to a decision in time, because it lost its leader"},
	{rpctypes.ErrTimeoutDueToConnectionLost, false,
		"it did not come to a decision in time, because its members cannot reach each other"},
	{rpctypes.ErrTooManyRequests, false, "it is overloaded"},
	{rpctypes.ErrGRPCNotSupportedForLearner, true,
		"it is a learner, which takes no part in decisions; name the other members"},
}

var errCut = errors.New("it cannot be reached: the connection ended")

// explain returns an error in words for the user, and reports whether a retry is useless.
func explain(err error) (why error, final bool) {
	said := rpctypes.Error(err)
	for _, r := range refusals {
		if errors.Is(said, rpctypes.Error(r.err)) {
			return fmt.Errorf("%s: %w", r.means, said), r.final
		}
	}
	text := err.Error()
	switch {
	case errors.Is(err, errForeign):
		return err, true
	case strings.Contains(text, errNoCredentials.Error()): // the library may have made an error of its own of it
		return err, false
	case strings.Contains(text, net.ErrClosed.Error()): // gRPC has closed it, because it was of no use
		return errCut, false
	case strings.Contains(text, "x509:") || strings.Contains(text, "certificate is not"):
		return fmt.Errorf("its certificate is not trusted: %w", err), true
	case strings.Contains(text, "first record does not look like a TLS handshake"):
		return fmt.Errorf("it does not speak TLS there (etcd:// is without): %w", err), true
	case strings.Contains(text, "authentication handshake failed: EOF"):
		return fmt.Errorf("it hung up; does it speak TLS there (etcd:// is without)? %w", err), false
	case strings.Contains(text, "tls:"):
		return fmt.Errorf("TLS was refused: %w", err), true
	case strings.Contains(text, "error reading server preface") && !strings.Contains(text, "reset"):
		return fmt.Errorf("it cannot be reached: is it starting, or does it speak TLS (etcds://)? %w", err), false
	case isUnavailable(err):
		return fmt.Errorf("it cannot be reached: %w", err), false
	}
	return fmt.Errorf("it refused: %w", err), false
}
