package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/holdfast-go/holdfast/store"
	"github.com/jackc/pgx/v5"
)

// creating is the key of the advisory lock that keeps clients from creating the tables at the same time.
const creating = 0x686f6c6466617374 // "holdfast"

// migrations are the steps from one format of the tables and functions to the next: the first leads from format 1 to 2.
// The last leads to what this program knows. Each must update the format of all slots, which makes older programs refuse
// the tables from then on.
var migrations []string

// prepare checks the server, and creates or migrates the tables.
func (e *engine) prepare(ctx context.Context) error {
	version, standby, there, err := e.inspect(ctx)
	switch {
	case err != nil:
		return err
	case version < oldest:
		return finalError(fmt.Sprintf("the server is version %d, and 13 is the oldest that will do", version/10000))
	case standby:
		return errStandby
	case !there:
		if err := e.create(ctx); err != nil {
			return err
		}
	}
	return e.migrate(ctx)
}

// inspect reads the server's version, whether it is a standby, and whether the tables are there.
func (e *engine) inspect(ctx context.Context) (version int, standby, there bool, err error) {
	err = e.DB.QueryRowContext(ctx, `SELECT current_setting('server_version_num')::int, pg_is_in_recovery(),
		to_regclass('holdfast.slots') IS NOT NULL`, e.Leading...).Scan(&version, &standby, &there)
	return version, standby, there, err
}

// create creates the tables, unless another client is quicker.
func (e *engine) create(ctx context.Context) error {
	err := e.run(ctx, schema)
	if err == nil {
		return nil
	}
	if _, _, there, again := e.inspect(ctx); again == nil && there {
		return nil
	}
	if isForbidden(err) {
		return finalError("this user may not create the schema holdfast: have an administrator run what " +
			"`holdfast schema postgres` prints, and grant what it says; or grant CREATE on the database")
	}
	return err
}

// run runs several statements as one transaction, one client at a time. It is to see what the client before it has done,
// and so has READ COMMITTED, whatever the database's default is.
func (e *engine) run(ctx context.Context, statements string) error {
	var args []any
	if e.Leading != nil {
		args = []any{pgx.QueryExecModeSimpleProtocol}
	}
	_, err := e.DB.ExecContext(ctx, fmt.Sprintf("SET TRANSACTION ISOLATION LEVEL READ COMMITTED;\n"+
		"SELECT pg_advisory_xact_lock(%d);\n", creating)+statements, args...)
	return err
}

// migrate brings older tables to this program's format, and refuses newer ones.
func (e *engine) migrate(ctx context.Context) error {
	for {
		var written int
		err := e.DB.QueryRowContext(ctx, "SELECT identity, (SELECT coalesce(max(format), 0) FROM holdfast.slots) FROM holdfast.meta",
			e.Leading...).Scan(&e.Identity, &written)
		switch {
		case err != nil:
			return err
		case written > e.Format:
			return fmt.Errorf("%w: the tables have format %d, and this program knows %d", store.ErrFormat, written, e.Format)
		case written == e.Format:
			return nil
		case written < 1 || written > len(e.migrations):
			return errAltered
		}
		err = e.run(ctx, fmt.Sprintf("DO $$ BEGIN IF (SELECT max(format) FROM holdfast.slots) <> %d THEN "+
			"RAISE EXCEPTION USING ERRCODE = '40001'; END IF; END $$;\n", written)+e.migrations[written-1])
		if err != nil && !isRolledBack(err) {
			return errors.Join(errors.New("the tables could not be brought to the newest format"), err)
		}
	}
}
