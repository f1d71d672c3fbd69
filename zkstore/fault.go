package zkstore

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/sessionqueue"
)

// A finalError is an error that a retry does not fix.
type finalError struct{ error }

func (f finalError) Unwrap() error { return f.error }

// final marks an error as one that a retry does not fix.
func final(err error) error { return finalError{err} }

var errNoPermission = errors.New("no permission")

// pathError returns err with the node at which a request was refused.
func pathError(path string, err error) error {
	switch {
	case errors.Is(err, zk.ErrNoAuth):
		return final(fmt.Errorf("%w for %s: its ACL, or that of the node above it, allows this user less than "+
			"read, create, write and delete", errNoPermission, store.Quote(path)))
	case errors.Is(err, zk.ErrInvalidACL):
		return final(fmt.Errorf("no permission for %s can be given: the user is not logged in", store.Quote(path)))
	case errors.Is(err, zk.ErrNoChildrenForEphemerals):
		return final(fmt.Errorf("there can be nothing under %s: it, or a node above it, is ephemeral",
			store.Quote(path)))
	}
	return err
}

// explain returns an error of the library in words for the user, and reports whether a retry is useless.
func explain(err error) (why error, isFinal bool) {
	if f, ok := errors.AsType[finalError](err); ok {
		return f.error, true
	}
	switch {
	case errors.Is(err, errNoCredentials):
		return err, false
	case errors.Is(err, sessionqueue.ErrUnreadable):
		return err, true
	case errors.Is(err, zk.ErrNoAuth):
		return errNoPermission, true
	case errors.Is(err, zk.ErrAuthFailed):
		return errors.New("the server refused user and password"), true
	case errors.Is(err, zk.ErrConnectionClosed), errors.Is(err, zk.ErrClosing), errors.Is(err, zk.ErrNoServer):
		return errCut, false
	case isA[*tls.CertificateVerificationError](err), isA[x509.UnknownAuthorityError](err):
		return err, true
	case isA[tls.RecordHeaderError](err):
		return errors.New("the server does not speak TLS at this port"), true
	case errors.Is(err, errHandshake):
		return err, false
	case errors.Is(err, context.DeadlineExceeded):
		return errors.New("no connection"), false
	case isA[*net.OpError](err):
		return fmt.Errorf("it cannot be reached: %w", err), false
	}
	return err, false
}

// isA reports whether err is, or wraps, an error of type E.
func isA[E error](err error) bool {
	_, ok := errors.AsType[E](err)
	return ok
}
