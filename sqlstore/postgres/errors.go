package postgres

import (
	"crypto/tls"
	"database/sql"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
)

// A finalError is one that a retry does not mend.
type finalError string

func (e finalError) Error() string { return string(e) }

const errAltered = finalError("the tables or functions of Holdfast are missing or were altered; " +
	"`holdfast schema postgres` prints what they should be")

var errStandby = errors.New("the server is a standby, which only reads; name the primary, or all servers")

// codeOf returns the SQLSTATE of an error, or "". Other drivers' errors have it too.
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

// isRolledBack reports a serialisation failure, a deadlock, or a lock that was not to be had in lock_timeout.
func isRolledBack(err error) bool {
	switch codeOf(err) {
	case "40001", "40P01", "55P03":
		return true
	}
	return false
}

// isDemoted reports that the server only reads.
func isDemoted(err error) bool { return codeOf(err) == "25006" || errors.Is(err, errStandby) }

func isForbidden(err error) bool { return codeOf(err) == "42501" }

// explain says what an error means to the user, and whether a retry is of no use.
func explain(err error) (why error, final bool) {
	if _, ok := errors.AsType[finalError](err); ok {
		return err, true
	}
	if isDemoted(err) {
		return errStandby, false
	}
	switch code := codeOf(err); code {
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
	if errors.Is(err, sql.ErrNoRows) {
		return errAltered, true
	}
	if _, ok := errors.AsType[*tls.CertificateVerificationError](err); ok || strings.Contains(err.Error(), "refused TLS") {
		return fmt.Errorf("TLS: %w", err), true
	}
	return err, false
}
