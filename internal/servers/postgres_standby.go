package servers

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
)

// Standby starts a server that copies this one, with the same options, and waits until it streams. It serves clients
// who only read. One that has lost its data copies this server anew when it is started.
func (p *PostgresServer) Standby(t testing.TB) *PostgresServer {
	t.Helper()
	s := newPostgres(t, p.set, (*PostgresServer).copyPrimary)
	s.primary = p
	must(t, s.firstStart())
	must(t, s.AwaitStreaming())
	return s
}

// copyPrimary makes the data of a standby from that of its primary, which must run.
func (p *PostgresServer) copyPrimary() error {
	err := p.run(p.tool("pg_basebackup"), "--dbname", p.primary.connectionInfo(p.name()), "--pgdata", p.dataDir(),
		"--wal-method", "stream", "--checkpoint", "fast", "--no-sync")
	if err != nil {
		return err
	}
	// The primary may have settings of its own in that file, such as how many standbys it waits for.
	config := fmt.Sprintf("primary_conninfo = '%s'\n", p.primary.connectionInfo(p.name()))
	return errors.Join(
		p.owner.write(filepath.Join(p.dataDir(), "postgresql.auto.conf"), []byte(config)),
		p.owner.write(filepath.Join(p.dataDir(), "standby.signal"), nil))
}

// connectionInfo says how a standby of this name reaches this server: over its socket, where no password is needed.
func (p *PostgresServer) connectionInfo(name string) string {
	return fmt.Sprintf("host=%s port=%d user=%s application_name=%s", p.Socket(), p.Port(), superuser, name)
}

// name is how a standby calls itself to its primary.
func (p *PostgresServer) name() string { return filepath.Base(p.dir) }

// AwaitStreaming waits until this standby receives what its primary writes, as it is written.
func (p *PostgresServer) AwaitStreaming() error {
	query := "SELECT state FROM pg_stat_replication WHERE application_name = " + quoted(p.name())
	return p.failed("await streaming", p.primary.await(query, "streaming", func(state string) error {
		return fmt.Errorf("%s says that the state of its standby is %q", p.primary.Addr(), state)
	}))
}

// AwaitCaughtUp waits until this standby shows to its clients all that its primary has committed by now.
func (p *PostgresServer) AwaitCaughtUp() error {
	position, err := p.primary.ask("SELECT pg_current_wal_flush_lsn()")
	if err != nil {
		return p.failed("await catching up", err)
	}
	query := "SELECT pg_last_wal_replay_lsn() >= " + quoted(position)
	return p.failed("await catching up", p.await(query, "t", func(string) error {
		return fmt.Errorf("it is behind %s", position)
	}))
}

// Synchronous makes this primary wait at each commit until so many standbys have it, or none with 0. It returns when
// they stream, so that a commit has to wait for them. A primary that is started again goes on so.
func (p *PostgresServer) Synchronous(standbys int) error {
	names := ""
	if standbys > 0 {
		names = fmt.Sprintf("ANY %d (*)", standbys)
	}
	err := p.setSystem("synchronous_standby_names", names)
	if err == nil {
		err = p.awaitSynchronous(standbys)
	}
	return p.failed("be synchronous", err)
}

// awaitSynchronous waits until so many standbys count, or none.
func (p *PostgresServer) awaitSynchronous(standbys int) error {
	counts := fmt.Sprintf("SELECT CASE WHEN %d = 0 THEN COUNT(*) = 0 ELSE COUNT(*) >= %d END "+
		"FROM pg_stat_replication WHERE sync_state <> 'async' AND state = 'streaming'", standbys, standbys)
	return p.await(counts, "t", func(string) error {
		return fmt.Errorf("%s does not have %d synchronous standbys yet", p.Addr(), standbys)
	})
}

// StopReplication makes this standby receive nothing more from its primary. What the primary commits after it has
// returned is not on the standby before ResumeReplication, and never if the standby is promoted first. A primary
// that is [PostgresServer.Synchronous] waits.
func (p *PostgresServer) StopReplication() error {
	err := p.setSystem("primary_conninfo", "")
	if err == nil {
		err = p.await("SELECT COUNT(*) FROM pg_stat_wal_receiver", "0", func(string) error {
			return errors.New("it still receives")
		})
	}
	return p.failed("stop replication", err)
}

// ResumeReplication ends a StopReplication, and waits until the standby streams.
func (p *PostgresServer) ResumeReplication() error {
	if err := p.setSystem("primary_conninfo", p.primary.connectionInfo(p.name())); err != nil {
		return p.failed("resume replication", err)
	}
	return p.AwaitStreaming()
}

// Promote makes this standby a primary, as an operator does who takes the old one for dead. The old one is told
// nothing: if it still runs, there are two from now on.
func (p *PostgresServer) Promote() error {
	done, err := p.ask("SELECT pg_promote()")
	if err == nil && done != "t" {
		err = errors.New("it did not end its recovery in time")
	}
	return p.failed("promote", err)
}

// setSystem changes a setting of the running server, for good.
func (p *PostgresServer) setSystem(name, value string) error {
	return p.exec("ALTER SYSTEM SET "+name+" = "+quoted(value), "SELECT pg_reload_conf()")
}

// quoted makes text a constant of SQL. It is for what a statement takes no parameters for.
func quoted(text string) string { return "'" + strings.ReplaceAll(text, "'", "''") + "'" }
