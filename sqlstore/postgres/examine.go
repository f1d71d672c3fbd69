package postgres

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/internal/dbserver"
	"github.com/holdfast-go/holdfast/store"
	"github.com/jackc/pgx/v5"
)

var _ store.Examiner = (*engine)(nil)

// facts are what a server reports of itself.
type facts struct {
	version, user                string
	super                        bool
	clock                        int64 // microseconds since 1970
	commit, fsync, fullPages     string
	syncNames                    string
	standbys                     int
	used, most                   int // connections
	expired, tombstones, foreign int
}

// Examine implements store.Examiner.
func (e *engine) Examine(ctx context.Context) []store.Finding {
	asked := time.Now()
	f, err := e.facts(ctx)
	took := time.Since(asked)
	if err != nil {
		return dbserver.Unreadable(e.Frame.Fault(ctx, err))
	}
	return []store.Finding{
		f.permissions(),
		{Check: "version", Found: "PostgreSQL " + f.version},
		dbserver.Clock(time.UnixMicro(f.clock), asked.Add(took/2)),
		f.persistence(), f.replication(), f.connections(),
		e.listening(ctx),
		f.leftovers(),
	}
}

func (e *engine) facts(ctx context.Context) (f facts, err error) {
	err = e.DB.QueryRowContext(ctx, `SELECT current_setting('server_version'), current_user,
		(SELECT rolsuper FROM pg_roles WHERE rolname = current_user), holdfast.clock(),
		current_setting('synchronous_commit'), current_setting('fsync'), current_setting('full_page_writes'),
		current_setting('synchronous_standby_names'), (SELECT count(*) FROM pg_stat_replication),
		(SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend'),
		current_setting('max_connections')::int,
		(SELECT count(*) FROM holdfast.claims WHERE deadline < holdfast.clock() - 300000000),
		(SELECT count(*) FROM holdfast.tombstones),
		(SELECT count(*) FROM pg_class WHERE relnamespace = to_regnamespace('holdfast') AND relkind IN ('r', 'p')
			AND relname NOT IN ('meta', 'slots', 'claims', 'tombstones'))`, e.Leading...).
		Scan(&f.version, &f.user, &f.super, &f.clock, &f.commit, &f.fsync, &f.fullPages, &f.syncNames, &f.standbys,
			&f.used, &f.most, &f.expired, &f.tombstones, &f.foreign)
	return f, err
}

func (f *facts) permissions() store.Finding {
	found := store.Finding{Check: "permissions", Found: "connected as " + store.Quote(f.user) +
		", which has all privileges that locks need"}
	if f.super {
		found.Found = "connected as the superuser " + store.Quote(f.user) + "; holdfast schema postgres --user NAME " +
			"prints what is enough"
	}
	return found
}

func (f *facts) persistence() store.Finding {
	found := store.Finding{Check: "persistence", Found: "synchronous_commit is " + f.commit + ", fsync is " + f.fsync}
	switch {
	case f.fsync == "off":
		found.Level = store.Fail
		found.Why = "a crash of the machine loses locks that were acknowledged, and can damage the database"
		found.Fix = "ALTER SYSTEM SET fsync = on; SELECT pg_reload_conf()"
	case f.commit == "off":
		found.Level = store.Fail
		found.Why = "a crash of the server loses locks that were acknowledged: two clients can hold one until the " +
			"ttl has passed"
		found.Fix = "ALTER ROLE " + pgx.Identifier{f.user}.Sanitize() + " SET synchronous_commit = on"
	case f.fullPages == "off":
		found.Level = store.Warn
		found.Found += ", full_page_writes is off"
		found.Why = "a crash of the machine can damage the database"
		found.Fix = "ALTER SYSTEM SET full_page_writes = on; SELECT pg_reload_conf()"
	}
	return found
}

func (f *facts) replication() store.Finding {
	found := store.Finding{
		Check: "replication", Found: fmt.Sprintf("%d standbys, none of them synchronous", f.standbys),
	}
	switch {
	case f.syncNames != "" && (f.commit == "local" || f.commit == "off"):
		found.Level = store.Warn
		found.Found = fmt.Sprintf("%d standbys; synchronous_standby_names is %s, and synchronous_commit is %s",
			f.standbys, store.Quote(f.syncNames), f.commit)
		found.Why = "commits of this user do not wait for a standby: a failover loses the last grants"
		found.Fix = "ALTER ROLE " + pgx.Identifier{f.user}.Sanitize() + " SET synchronous_commit = on"
	case f.syncNames != "" && f.standbys == 0:
		found.Level = store.Fail
		found.Found = "synchronous_standby_names is " + store.Quote(f.syncNames) + ", and no standby is connected"
		found.Why = "every commit waits for a standby: no lock is granted"
		found.Fix = "start the standby, or ALTER SYSTEM SET synchronous_standby_names = ''; SELECT pg_reload_conf()"
	case f.syncNames != "":
		found.Found = fmt.Sprintf("%d standbys; synchronous_standby_names is %s", f.standbys, store.Quote(f.syncNames))
	case f.standbys > 0:
		found.Level = store.Warn
		found.Why = "a failover to a standby loses the last grants: two clients can hold one lock for up to a ttl"
		found.Fix = "ALTER SYSTEM SET synchronous_standby_names = 'ANY 1 (*)'; SELECT pg_reload_conf()"
	default:
		found.Found = "no standbys: no failover, and nothing that one could lose"
	}
	return found
}

func (f *facts) connections() store.Finding {
	found := store.Finding{Check: "connections", Found: fmt.Sprintf("%d of %d in use", f.used, f.most)}
	if f.used*10 > f.most*9 {
		found.Level = store.Warn
		found.Why = "a client that finds no connection free can neither acquire nor renew"
		found.Fix = "raise max_connections, or put a pooler in between"
	}
	return found
}

func (f *facts) leftovers() store.Finding {
	switch {
	case f.expired > 0:
		return dbserver.Expired(f.expired, "SELECT * FROM holdfast.lines WHERE deadline < now()")
	case f.foreign > 0:
		return store.Finding{
			Check: "tables", Level: store.Warn,
			Found: fmt.Sprintf("%d tables in the schema holdfast are not Holdfast's", f.foreign),
			Why:   "an update of Holdfast may need their names",
			Fix:   "ALTER TABLE holdfast.NAME SET SCHEMA other",
		}
	}
	return store.Finding{Check: "tables", Found: fmt.Sprintf("no expired claims, %d tombstones, no other tables in "+
		"the schema holdfast", f.tombstones)}
}

// listening reports whether notifications arrive, over a connection of its own.
func (e *engine) listening(ctx context.Context) store.Finding {
	const why = "waiters read the table every 2 to 100 ms instead of being notified, which is slower and " +
		"costs the server"
	warn := func(found, fix string) store.Finding {
		return store.Finding{Check: "listen", Level: store.Warn, Found: found, Why: why, Fix: fix}
	}
	if e.listener.connect == nil {
		return warn("the database was handed in with a driver that has no notifications", "open it by URL, or with pgx")
	}
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	conn, err := e.listener.connect(ctx)
	if err != nil {
		return warn("no connection for notifications: "+e.Frame.Fault(ctx, err).Error(),
			"correct listen= in the URL, or raise max_connections")
	}
	defer conn.Close(context.WithoutCancel(ctx)) //nolint:errcheck // nothing depends on it
	var pid uint32
	if err := conn.QueryRow(ctx, "SELECT pg_backend_pid()").Scan(&pid); err != nil {
		return warn("the connection for notifications fails: "+e.Frame.Fault(ctx, err).Error(), "run doctor again")
	}
	if pid != conn.PgConn().PID() {
		return warn("a pooler (PgBouncer or similar) is in between, which passes no notifications on",
			"append listen=postgres://HOST:PORT/DATABASE of the server itself to the URL, with / as %2F")
	}
	if _, err := conn.Exec(ctx, "LISTEN holdfast_doctor; UNLISTEN holdfast_doctor",
		pgx.QueryExecModeSimpleProtocol); err != nil {
		return warn("LISTEN is refused: "+strings.TrimSpace(e.Frame.Fault(ctx, err).Error()),
			"let this user LISTEN, or connect to the primary")
	}
	return store.Finding{Check: "listen", Found: "notifications arrive: a waiter is woken at once"}
}
