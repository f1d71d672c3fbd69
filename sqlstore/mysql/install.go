package mysql

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/holdfast-go/holdfast/internal/dbserver"
	"github.com/holdfast-go/holdfast/sqlstore/routines"
	"github.com/holdfast-go/holdfast/store"
)

// migrations are scripts like the schema, each from one format to the next: the first from format 1 to 2. The server
// commits each statement at once, so a script must be repeatable after a failure in its middle. Its last statement must
// update the format of all slots, which makes older programs refuse the tables from then on. From format 1 to 3 only
// procedures have changed, which the schema replaces.
var migrations = []string{schema, schema}

// An installer prepares a database for use, over a connection of its own.
type installer struct {
	engine *routines.Engine
	steps  []string // from one format to the next
	conn   *sql.Conn
}

// prepare checks the server, and creates the tables or migrates them with these steps.
func prepare(ctx context.Context, e *routines.Engine, steps []string) error {
	conn, err := e.DB.Conn(ctx)
	if err != nil {
		return err
	}
	i := installer{engine: e, steps: steps, conn: conn}
	defer func() { _ = i.conn.Close() }() // returns it to the pool
	if err := i.inspect(ctx); err != nil {
		return err
	}
	for {
		written, err := i.format(ctx)
		switch {
		case err != nil:
			return err
		case written > e.Format:
			return fmt.Errorf("%w: the tables have format %d, and this program knows %d", store.ErrFormat, written,
				e.Format)
		case written == e.Format:
			return i.conn.QueryRowContext(ctx, "SELECT identity FROM holdfast_meta").Scan(&e.Identity)
		case written > len(steps):
			return errAltered
		}
		if err := i.migrate(ctx, written); err != nil {
			return err
		}
	}
}

// inspect returns an error if the server or the session is not suitable.
func (i *installer) inspect(ctx context.Context) error {
	var version string
	var database sql.NullString
	var commits, readOnly bool
	err := i.conn.QueryRowContext(ctx, "SELECT VERSION(), DATABASE(), @@autocommit, "+isReadOnly).
		Scan(&version, &database, &commits, &readOnly)
	switch {
	case err != nil:
		return err
	case !isNewEnough(version):
		return dbserver.FinalError(fmt.Sprintf("the server is version %.40s; MariaDB 10.6 and MySQL 8.0 are the "+
			"oldest that are supported", version))
	case readOnly:
		return errReadOnly
	case !database.Valid:
		return dbserver.FinalError("no database is selected for the tables, as in mysql://host/DATABASE")
	case !commits:
		return dbserver.FinalError("the connections have autocommit off, and would keep reading an old snapshot")
	}
	return nil
}

func isNewEnough(version string) bool {
	numbers := strings.SplitN(version, ".", 3)
	if len(numbers) < 3 {
		return false
	}
	major, _ := strconv.Atoi(numbers[0])
	minor, _ := strconv.Atoi(numbers[1])
	if strings.Contains(version, "MariaDB") {
		return major > 10 || major == 10 && minor >= 6
	}
	return major >= 8
}

// format returns the format of the tables, or 0 if some of them are missing.
func (i *installer) format(ctx context.Context) (written int, err error) {
	err = i.conn.QueryRowContext(ctx, "SELECT COALESCE(MAX(format), 0) FROM holdfast_slots").Scan(&written)
	if codeOf(err) == 1146 {
		err = nil
	}
	return written, err
}

// migrate creates the tables, or migrates them to the next format, unless another client does so first. It changes the
// session, so its connection is closed, and another one takes its place.
func (i *installer) migrate(ctx context.Context, written int) error {
	const lock = "CONCAT('holdfast.', LEFT(SHA2(DATABASE(), 256), 40))"
	var locked sql.NullBool
	err := i.conn.QueryRowContext(ctx, "SELECT GET_LOCK("+lock+", ?)", dbserver.OpenTimeout.Seconds()).Scan(&locked)
	if err != nil {
		return err
	}
	if !locked.Bool {
		return errors.New("another client has been creating the tables for too long")
	}
	script := schema
	if written > 0 {
		script = i.steps[written-1]
	}
	if now, again := i.format(ctx); again == nil && now == written {
		err = i.run(ctx, script)
	}
	if isForbidden(err) {
		err = errForbidden
	}
	_ = i.conn.Raw(func(any) error { return driver.ErrBadConn })
	conn, again := i.engine.DB.Conn(ctx)
	if again == nil {
		i.conn = conn
	}
	return errors.Join(err, again)
}

func (i *installer) run(ctx context.Context, script string) error {
	for _, statement := range statementsOf(script) {
		if _, err := i.conn.ExecContext(ctx, statement); err != nil {
			return err
		}
	}
	return nil
}
