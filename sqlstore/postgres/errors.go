package postgres

import (
	"crypto/tls"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"syscall"

	"github.com/holdfast-go/holdfast/internal/dbserver"
	"github.com/jackc/pgx/v5/pgconn"
)

const errAltered = dbserver.FinalError("the tables or functions of Holdfast are missing or were altered; " +
	"`holdfast schema postgres` prints what they should be")

var errReadOnly = errors.New(
	"the server is read-only: it is a standby, or was set so; name the primary, or all servers",
)

// codeOf returns the SQLSTATE of an error, or "". It also knows the errors of other drivers.
func codeOf(err error) string {
	if e, ok := errors.AsType[*pgconn.PgError](err); ok {
		return e.Code
	}
	if e, ok := errors.AsType[interface {
		error
		SQLState() string
	}](err); ok {
		return e.SQLState()
	}
	return ""
}

// isRolledBack reports a serialisation failure, a deadlock, or a lock that was not acquired within lock_timeout.
func isRolledBack(err error) bool {
	return slices.Contains([]string{"40001", "40P01", "55P03"}, codeOf(err))
}

// isDemoted reports that the server is read-only.
func isDemoted(err error) bool { return codeOf(err) == "25006" || errors.Is(err, errReadOnly) }

func isForbidden(err error) bool { return codeOf(err) == "42501" }

// A reworded error has a shorter text.
type reworded struct {
	text string
	error
}

func (e *reworded) Error() string { return e.text }
func (e *reworded) Unwrap() error { return e.error }

// reword shortens the error of one or more failed connection attempts to one line of text.
func reword(err error) error {
	failed, ok := errors.AsType[*pgconn.ConnectError](err)
	if !ok {
		return err
	}
	tries := []error{failed.Unwrap()}
	if several, ok := tries[0].(interface{ Unwrap() []error }); ok {
		tries = several.Unwrap()
	}
	var texts []string
	for _, try := range tries {
		if text := try.Error(); !slices.Contains(texts, text) { // with TLS, and without
			texts = append(texts, text)
		}
	}
	return &reworded{strings.Join(texts, "; "), failed}
}

// explain returns an error that says what err means to the user, and whether a retry is useless.
func explain(err error) (why error, final bool) {
	if _, ok := errors.AsType[dbserver.FinalError](err); ok {
		return err, true
	}
	if isDemoted(err) {
		return errReadOnly, false
	}
	err = reword(err)
	if code := codeOf(err); code != "" {
		return explainCode(code, err)
	}
	_, unconnected := errors.AsType[*pgconn.ConnectError](err)
	_, untrusted := errors.AsType[*tls.CertificateVerificationError](err)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return errAltered, true
	case errors.Is(err, pgconn.ErrReadOnlyConnection):
		return fmt.Errorf("%w (%w)", errReadOnly, err), false
	case untrusted || strings.Contains(err.Error(), "refused TLS"):
		return fmt.Errorf("TLS: %w", err), true
	case unconnected:
		return fmt.Errorf("the server cannot be reached: %w", err), false
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, syscall.ECONNRESET),
		errors.Is(err, syscall.EPIPE), errors.Is(err, pgconn.ErrConnClosed), errors.Is(err, driver.ErrBadConn):
		return fmt.Errorf("the connection was closed: %w", err), false
	}
	return err, false
}

// explainCode is explain for an error of the server.
func explainCode(code string, err error) (why error, final bool) {
	switch code {
	case "28P01", "28000":
		return fmt.Errorf("the server refuses this user, password or database: %w", err), true
	case "3D000":
		return fmt.Errorf("there is no such database: %w", err), true
	case "42501":
		return fmt.Errorf("this user lacks privileges; `holdfast schema postgres` says which are needed: %w", err), true
	case "42P01", "42883", "42703", "3F000", "42P10", "P0002", "42804", "23502", "23514":
		return fmt.Errorf("%w (%w)", errAltered, err), true
	case "53100":
		return fmt.Errorf("the disk is full: %w", err), false
	case "53300":
		return fmt.Errorf("the server has no connection left: %w", err), false
	case "57P01", "57P02", "57P03":
		return fmt.Errorf("the server is starting or stopping, or has ended this connection: %w", err), false
	}
	return err, false
}

// explainRotating is explain for a store whose credentials change. A refusal is not final: the next password may work.
func explainRotating(err error) (why error, final bool) {
	why, final = explain(err)
	if code := codeOf(err); code == "28P01" || code == "28000" {
		final = false
	}
	return why, final
}
