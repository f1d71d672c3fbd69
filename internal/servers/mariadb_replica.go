package servers

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"testing"
)

// Replica starts a server that copies this one, with the same options, and waits until it has what this one has. It
// serves clients that only read; root may write, and should not.
func (m *MariaDBServer) Replica(t testing.TB) *MariaDBServer {
	t.Helper()
	r := newMariaDB(t, m.set, m)
	must(t, r.firstStart())
	must(t, r.Follow(m))
	return r
}

// Follow makes a server that has no data yet, or has lost it, a replica of primary, and waits until it has what the
// primary has. It stays one when it is started again.
func (m *MariaDBServer) Follow(primary *MariaDBServer) error {
	m.note(func() { m.primary = primary })
	primary.note(func() {
		if !slices.Contains(primary.replicas, m) {
			primary.replicas = append(primary.replicas, m)
		}
	})
	change := fmt.Sprintf("CHANGE MASTER TO MASTER_HOST = '127.0.0.1', MASTER_PORT = %d, MASTER_USER = '%s', "+
		"MASTER_USE_GTID = slave_pos, MASTER_CONNECT_RETRY = 1, MASTER_SSL = %d, MASTER_SSL_VERIFY_SERVER_CERT = 0",
		primary.Port(), replicaName, boolInt(primary.set.certificates != nil))
	if err := m.exec("SET GLOBAL read_only = 1", change, "START SLAVE"); err != nil {
		return m.failed("follow", err)
	}
	return m.AwaitCaughtUp()
}

// note changes what the server is started with the next time.
func (m *MariaDBServer) note(change func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	change()
}

func boolInt(b bool) int {
	if b {
		return 1
	}
	return 0
}

// AwaitCaughtUp waits until this replica shows to its clients all that its primary has committed by now.
func (m *MariaDBServer) AwaitCaughtUp() error {
	position, err := m.primary.ask("SELECT @@gtid_binlog_pos")
	if err == nil {
		err = m.awaitPosition(position)
	}
	return m.failed("await catching up", err)
}

// awaitPosition waits until it has applied all up to a position.
func (m *MariaDBServer) awaitPosition(position string) error {
	return poll(func(context.Context) error {
		answer, err := m.ask("SELECT MASTER_GTID_WAIT(?, 0)", position)
		if err == nil && answer != "0" {
			err = fmt.Errorf("it has not applied %s", position)
		}
		return err
	})
}

// SemiSync makes this primary wait at each commit until one replica has received it, or no longer. It returns when all
// replicas that run count. A primary that is started again goes on so.
func (m *MariaDBServer) SemiSync(on bool) error {
	var replicas []*MariaDBServer
	m.note(func() {
		m.semiSync = on
		replicas = slices.Clone(m.replicas)
	})
	err := m.exec("SET GLOBAL rpl_semi_sync_master_enabled = " + strconv.Itoa(boolInt(on)))
	counted := 0
	for _, replica := range replicas {
		if on && err == nil && replica.Pid() != 0 && replica.primary == m {
			counted++ // it looks whether it is wanted when it connects
			err = replica.exec("STOP SLAVE IO_THREAD", "START SLAVE IO_THREAD")
		}
	}
	if err == nil && on {
		err = poll(func(context.Context) error {
			clients, err := m.ask("SHOW GLOBAL STATUS LIKE 'Rpl_semi_sync_master_clients'")
			if err == nil && clients != strconv.Itoa(counted) {
				err = fmt.Errorf("it waits for one of %s replicas, not of %d", clients, counted)
			}
			return err
		})
	}
	return m.failed("be semi-synchronous", err)
}

// StopReplication makes this replica receive nothing more from its primary. What the primary commits after it has
// returned is not on the replica before ResumeReplication, and never if the replica is promoted first. A primary
// with [MariaDBServer.SemiSync] waits.
func (m *MariaDBServer) StopReplication() error {
	return m.failed("stop replication", m.exec("STOP SLAVE IO_THREAD"))
}

// ResumeReplication ends a StopReplication. The replica applies what it has missed, soon after.
func (m *MariaDBServer) ResumeReplication() error {
	return m.failed("resume replication", m.exec("START SLAVE"))
}

// Promote makes this replica a primary, as an operator does who takes the old one for dead. It applies what it has
// received first. The old one is not notified: if it still runs, there are two from now on.
func (m *MariaDBServer) Promote() error {
	err := m.exec("STOP SLAVE IO_THREAD")
	if err == nil {
		err = m.awaitApplied()
	}
	if err == nil {
		err = m.exec("STOP SLAVE", "RESET SLAVE ALL", "SET GLOBAL read_only = 0")
	}
	if err == nil {
		m.note(func() { m.primary = nil })
	}
	return m.failed("promote", err)
}

// awaitApplied waits until all that was received is applied.
func (m *MariaDBServer) awaitApplied() error {
	columns, values, err := m.row(answerPatience, "SHOW SLAVE STATUS")
	if err != nil {
		return err
	}
	received := slices.Index(columns, "Gtid_IO_Pos")
	if received < 0 {
		return errors.New("it is no replica")
	}
	return m.awaitPosition(values[received])
}
