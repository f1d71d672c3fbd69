package mysql

import (
	"context"
	"database/sql"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/internal/dbserver"
	"github.com/holdfast-go/holdfast/sqlstore/routines"
	"github.com/holdfast-go/holdfast/store"
)

// An engine is a routines.Engine that can be examined.
type engine struct{ *routines.Engine }

var _ store.Examiner = engine{}

// facts are what a server reports of itself.
type facts struct {
	version, user string
	clock         float64 // seconds since 1970
	flush         string  // innodb_flush_log_at_trx_commit
	variables     map[string]string
	expired       int
}

// Examine implements store.Examiner.
func (e engine) Examine(ctx context.Context) []store.Finding {
	asked := time.Now()
	var f facts
	err := e.DB.QueryRowContext(ctx, "SELECT VERSION(), CURRENT_USER(), UNIX_TIMESTAMP(NOW(6)), "+
		"CAST(@@global.innodb_flush_log_at_trx_commit AS CHAR)").Scan(&f.version, &f.user, &f.clock, &f.flush)
	took := time.Since(asked)
	if err == nil {
		err = e.DB.QueryRowContext(
			ctx,
			"SELECT COUNT(*) FROM holdfast_claims WHERE deadline < (UNIX_TIMESTAMP(NOW(6)) - 300) * 1000000",
		).Scan(&f.expired)
	}
	if err == nil {
		f.variables, err = e.variables(ctx)
	}
	if err != nil {
		return dbserver.Unreadable(e.Frame.Fault(ctx, err))
	}
	return []store.Finding{
		{Check: "permissions", Found: "connected as " + store.Quote(f.user) + ", which may do what locks need"},
		{Check: "version", Found: f.version},
		dbserver.Clock(time.UnixMicro(int64(f.clock*1e6)), asked.Add(took/2)),
		f.writable(), f.persistence(), f.replication(), f.leftovers(),
	}
}

// variables reads the settings and states that have to do with replication.
func (e engine) variables(ctx context.Context) (map[string]string, error) {
	all := map[string]string{}
	for _, query := range []string{
		"SHOW GLOBAL VARIABLES WHERE Variable_name IN ('log_bin', 'sync_binlog', 'read_only', 'super_read_only', " +
			"'wsrep_on', 'innodb_doublewrite', 'group_replication_group_name') OR Variable_name LIKE 'rpl_semi_sync%'",
		"SHOW GLOBAL STATUS LIKE 'rpl_semi_sync%'",
	} {
		if err := readPairs(ctx, e.DB, query, all); err != nil {
			return nil, err
		}
	}
	return all, nil
}

func readPairs(ctx context.Context, db *sql.DB, query string, into map[string]string) error {
	rows, err := db.QueryContext(ctx, query)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var name, value string
		if err := rows.Scan(&name, &value); err != nil {
			return err
		}
		into[strings.ToLower(name)] = value
	}
	return rows.Err()
}

// isOn reports whether one of these settings or states is on.
func (f *facts) isOn(names ...string) bool {
	for _, name := range names {
		switch strings.ToUpper(f.variables[name]) {
		case "ON", "1", "YES":
			return true
		}
	}
	return false
}

func (f *facts) writable() store.Finding {
	found := store.Finding{Check: "read-only", Found: "the server takes writes"}
	if f.isOn("read_only", "super_read_only") {
		found.Level, found.Found = store.Fail, "the server is read-only"
		found.Why = "it is a replica, or was set so: no lock can be acquired"
		found.Fix = "name the primary in the URL; or SET GLOBAL read_only = OFF"
	}
	if f.isOn("wsrep_on") || f.variables["group_replication_group_name"] != "" {
		found.Level = max(found.Level, store.Warn)
		found.Found += "; it is a node of a cluster that is written to at several nodes (Galera, Group Replication)"
		found.Why = "clients that use different nodes can hold one lock at the same time"
		found.Fix = "have all clients use the same node: one host in the URL, or a proxy that writes to one node"
	}
	return found
}

func (f *facts) persistence() store.Finding {
	found := store.Finding{Check: "persistence", Found: "innodb_flush_log_at_trx_commit is " + f.flush}
	if f.flush != "1" {
		found.Level = store.Fail
		found.Why = "a crash loses locks that were acknowledged: two clients can hold one until the ttl has passed"
		found.Fix = "SET GLOBAL innodb_flush_log_at_trx_commit = 1, and the same in my.cnf"
	}
	return found
}

func (f *facts) replication() store.Finding {
	found := store.Finding{
		Check: "replication", Found: "no binary log: no replica, and nothing that a failover could lose",
	}
	if !f.isOn("log_bin") {
		return found
	}
	semi := f.isOn("rpl_semi_sync_master_enabled", "rpl_semi_sync_source_enabled")
	active := f.isOn("rpl_semi_sync_master_status", "rpl_semi_sync_source_status")
	found.Found = "a binary log with sync_binlog = " + f.variables["sync_binlog"]
	switch {
	case f.variables["sync_binlog"] != "1":
		found.Level = store.Warn
		found.Why = "after a crash a replica may have, or lack, locks that the server does not"
		found.Fix = "SET GLOBAL sync_binlog = 1, and the same in my.cnf"
	case semi && !active:
		found.Level = store.Warn
		found.Found += "; semi-synchronous replication is enabled, and has fallen back to asynchronous"
		found.Why = "a failover loses grants that no replica has: two clients can hold one lock for up to a ttl"
		found.Fix = "start the replicas; raise rpl_semi_sync_master_timeout so that it does not fall back"
	case semi:
		found.Found += "; replication is semi-synchronous"
	default:
		found.Found += "; replication, if there is a replica, is asynchronous: a failover can lose the last grants"
	}
	return found
}

func (f *facts) leftovers() store.Finding {
	if f.expired > 0 {
		return dbserver.Expired(f.expired, "SELECT * FROM holdfast_lines WHERE deadline < NOW()")
	}
	return store.Finding{Check: "tables", Found: "no expired claims"}
}
