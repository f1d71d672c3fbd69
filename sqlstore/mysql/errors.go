package mysql

import (
	"crypto/tls"
	"errors"
	"fmt"
	"slices"

	"github.com/go-sql-driver/mysql"
	"github.com/holdfast-go/holdfast/internal/dbserver"
)

const (
	errAltered = dbserver.FinalError("the tables or procedures of Holdfast are missing or were altered; " +
		"`holdfast schema mysql` prints what they should be")
	errForbidden = dbserver.FinalError("this user may not create or migrate the tables of Holdfast: have an " +
		"administrator run what `holdfast schema mysql` prints, and grant this user what it says; or grant this user " +
		"CREATE, DROP, CREATE VIEW, CREATE ROUTINE, ALTER ROUTINE, SELECT, INSERT, UPDATE and DELETE on the database")
)

var errReadOnly = errors.New("the server is read-only, as replicas and former primaries are; name the primary, or all")

// codeOf returns the server's number of an error, or 0.
func codeOf(err error) uint16 {
	if e, ok := errors.AsType[*mysql.MySQLError](err); ok {
		return e.Number
	}
	return 0
}

// hasCode reports whether the server's number of an error is one of these.
func hasCode(err error, codes ...uint16) bool { return slices.Contains(codes, codeOf(err)) }

// isRolledBack reports a deadlock, a lock wait timeout, or a conflict with another node of a cluster.
func isRolledBack(err error) bool { return hasCode(err, 1213, 1205, 1020, 3101) }

// isDemoted reports that the server is read-only, or is cut off from its cluster.
func isDemoted(err error) bool {
	return hasCode(err, 1290, 1836, 1792) || errors.Is(err, errReadOnly) || isCutOff(err)
}

// isCutOff reports a node of Galera or Group Replication that may not commit, as without a quorum.
func isCutOff(err error) bool { return hasCode(err, 1047, 3100) }

// isStuck reports that a call was interrupted in the middle of its transaction, or found such a transaction open on its
// connection.
func isStuck(err error) bool { return hasCode(err, 1317, 1568, 1969, 3024) }

func isForbidden(err error) bool { return hasCode(err, 1044, 1142, 1143, 1227, 1370) }

// explain returns an error that says what err means to the user, and whether a retry is useless.
func explain(err error) (why error, final bool) {
	if _, ok := errors.AsType[dbserver.FinalError](err); ok {
		return err, true
	}
	switch {
	case isCutOff(err):
		return fmt.Errorf("the server is cut off from its cluster: %w", err), false
	case isDemoted(err):
		return errReadOnly, false
	case isForbidden(err):
		return fmt.Errorf("this user lacks privileges; `holdfast schema mysql` says which are needed: %w", err), true
	}
	switch codeOf(err) {
	case 1045, 1130, 1698, 1862:
		return fmt.Errorf("the server refuses this user or password, or requires TLS: %w", err), true
	case 1049:
		return fmt.Errorf("there is no such database: %w", err), true
	case 1054, 1136, 1146, 1305, 1318, 1356, 1364, 1644, 3819, 4025:
		return fmt.Errorf("%w (%w)", errAltered, err), true
	case 1021, 1114:
		return fmt.Errorf("the disk is full: %w", err), false
	case 1040, 1203, 1226:
		return fmt.Errorf("the server has no connection left: %w", err), false
	case 1461:
		return fmt.Errorf("the server's max_prepared_stmt_count is too small for its clients: %w", err), false
	case 1053, 1317, 1927, 1969, 3024, 3169:
		return fmt.Errorf("the server is stopping, or has ended this connection or call: %w", err), false
	case 1665:
		return fmt.Errorf("the server's binlog_format has to be ROW or MIXED: %w", err), true
	case 3159:
		return fmt.Errorf("TLS: %w", err), true
	}
	for _, refused := range []error{
		mysql.ErrCleartextPassword, mysql.ErrNativePassword, mysql.ErrOldPassword, mysql.ErrUnknownPlugin,
	} {
		if errors.Is(err, refused) {
			return fmt.Errorf("this user cannot log in: %w", err), true
		}
	}
	if _, ok := errors.AsType[*tls.CertificateVerificationError](err); ok || errors.Is(err, mysql.ErrNoTLS) {
		return fmt.Errorf("TLS: %w", err), true
	}
	return err, false
}
