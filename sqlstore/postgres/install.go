package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/holdfast-go/holdfast/internal/dbserver"
	"github.com/holdfast-go/holdfast/sqlstore/routines"
	"github.com/holdfast-go/holdfast/store"
	"github.com/jackc/pgx/v5"
)

// creating is the key of the advisory lock that keeps clients from creating the tables at the same time.
const creating = 0x686f6c6466617374 // "holdfast"

// migrations are scripts from one format of the tables and functions to the next: the first from format 1 to 2, the
// last to the format that this program knows. Each must update the format of all slots, which makes older programs
// refuse the tables from then on. From format 1 to 2 only functions have changed, which the schema replaces.
var migrations = []string{schema}

// prepare checks the server, and creates or migrates the tables.
func (e *engine) prepare(ctx context.Context) error {
	found, err := e.inspect(ctx)
	switch {
	case err != nil:
		return err
	case found.version < oldest:
		return dbserver.FinalError(fmt.Sprintf("the server is version %d, and 13 is the oldest that is supported",
			found.version/10000))
	case found.encoding != "UTF8":
		return dbserver.FinalError("the database has the encoding " + found.encoding + ", and UTF8 is needed")
	case found.readOnly:
		return errReadOnly
	case found.lacking != "" && !e.trusting:
		return dbserver.FinalError("this user lacks " + found.lacking)
	case !found.tables:
		if err := e.create(ctx); err != nil {
			return err
		}
	}
	return e.migrate(ctx)
}

// A finding is what inspect reads from a server.
type finding struct {
	version  int
	encoding string
	readOnly bool   // it is a standby, or was set so
	tables   bool   // the tables exist
	lacking  string // the privileges that the user needs and does not have
}

// inspect reads what must be known of the server before it is used.
func (e *engine) inspect(ctx context.Context) (f finding, err error) {
	err = e.DB.QueryRowContext(ctx,
		`SELECT current_setting('server_version_num')::int, current_setting('server_encoding'),
		current_setting('transaction_read_only')::boolean,
		to_regclass('holdfast.slots') IS NOT NULL,
		coalesce((SELECT string_agg(privilege || ' on ' || thing, ', ') FROM (
			SELECT privilege, 'holdfast.' || name AS thing FROM (VALUES
				('claims', 'SELECT'), ('claims', 'INSERT'), ('claims', 'UPDATE'), ('claims', 'DELETE'),
				('tombstones', 'SELECT'), ('tombstones', 'INSERT'), ('tombstones', 'DELETE'),
				('slots', 'SELECT'), ('slots', 'UPDATE'), ('meta', 'SELECT'), ('meta', 'UPDATE'))
				AS needed (name, privilege)
				WHERE NOT has_table_privilege(to_regclass('holdfast.' || name), privilege)
			UNION ALL SELECT 'EXECUTE', oid::regprocedure::text FROM pg_proc
				WHERE pronamespace = to_regnamespace('holdfast')
				AND NOT has_function_privilege(oid, 'EXECUTE')) AS l), '')`,
		e.Leading...).
		Scan(&f.version, &f.encoding, &f.readOnly, &f.tables, &f.lacking)
	return f, err
}

// create creates the tables, unless another client does so first.
func (e *engine) create(ctx context.Context) error {
	err := e.run(ctx, `DO $$ BEGIN IF to_regclass('holdfast.slots') IS NOT NULL THEN
		RAISE EXCEPTION USING ERRCODE = '40001'; END IF; END $$;
		`+schema)
	if err == nil {
		return nil
	}
	if found, again := e.inspect(ctx); again == nil && found.tables {
		return nil
	}
	if isForbidden(err) {
		return dbserver.FinalError("this user may not create the schema holdfast: have an administrator run what " +
			"`holdfast schema postgres` prints, and grant what it says; or grant CREATE on the database")
	}
	return err
}

// run runs several statements as one transaction, one client at a time. It must read what the client before it has
// committed, so its isolation level is READ COMMITTED, whatever the database's default is.
func (e *engine) run(ctx context.Context, statements string) error {
	var args []any
	if e.Leading != nil {
		args = []any{pgx.QueryExecModeSimpleProtocol}
	}
	_, err := e.DB.ExecContext(ctx, fmt.Sprintf("SET TRANSACTION ISOLATION LEVEL READ COMMITTED;\n"+
		"SELECT pg_advisory_xact_lock(%d);\n", creating)+statements, args...)
	return err
}

// migrate migrates older tables to this program's format. It returns store.ErrFormat for newer ones.
func (e *engine) migrate(ctx context.Context) error {
	for {
		var written, slots int
		err := e.DB.QueryRowContext(ctx, `SELECT identity, (SELECT coalesce(max(format), 0) FROM holdfast.slots),
			(SELECT count(*) FROM holdfast.slots) FROM holdfast.meta`, e.Leading...).Scan(&e.Identity, &written, &slots)
		switch {
		case err != nil:
			return err
		case written > e.Format:
			return fmt.Errorf("%w: the tables have format %d, and this program knows %d", store.ErrFormat, written,
				e.Format)
		case slots != routines.Slots:
			return errAltered
		case written == e.Format:
			return nil
		case written < 1 || written > len(e.migrations):
			return errAltered
		}
		err = e.run(ctx, fmt.Sprintf("DO $$ BEGIN IF (SELECT max(format) FROM holdfast.slots) <> %d THEN "+
			"RAISE EXCEPTION USING ERRCODE = '40001'; END IF; END $$;\n", written)+e.migrations[written-1])
		if isForbidden(err) {
			return dbserver.FinalError(fmt.Sprintf("the tables have format %d, this program needs format %d, and this "+
				"user may not migrate them: have their owner run what `holdfast schema postgres` prints",
				written, e.Format))
		}
		if err != nil && !isRolledBack(err) {
			return errors.Join(errors.New("the tables could not be brought to the newest format"), err)
		}
	}
}
