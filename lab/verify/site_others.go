package verify

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/servers"
)

// A member is a server of several with a quorum.
type member interface {
	node
	AwaitHealthy() error
}

// quorumFaults returns the faults of servers with a quorum and a leader.
func quorumFaults[T member](nodes []T, leader func() (T, error)) []fault {
	healthy := func() (err error) {
		for _, n := range nodes {
			err = errors.Join(err, n.AwaitHealthy())
		}
		return err
	}
	return []fault{
		restart{
			name: "leader-kill", about: "the leader is killed with -9 and started again", choose: the(leader),
			healthy: healthy,
		}.fault(),
		restart{
			name: "all-kill", about: "all servers are killed with -9 and started again",
			choose: some(len(nodes), nodes), healthy: healthy,
		}.fault(),
		stopped("leader-stop", "the leader stands still", the(leader), healthy),
		stopped("minority-stop", "a minority stands still", some(len(nodes)/2, nodes), healthy),
		stopped("majority-stop", "a majority stands still", some(len(nodes)/2+1, nodes), healthy),
	}
}

func etcdSite(t testing.TB, _ time.Duration) site {
	c := servers.EtcdCluster(t, 3)
	return site{url: "etcd://" + strings.Join(c.Endpoints(), ","), faults: quorumFaults(c.Nodes, c.Leader)}
}

func consulSite(t testing.TB, _ time.Duration) site {
	c := servers.ConsulCluster(t, 3)
	return site{url: "consul://" + strings.Join(c.Endpoints(), ","), faults: quorumFaults(c.Nodes, c.Leader)}
}

func zookeeperSite(t testing.TB, _ time.Duration) site {
	const tick = 200 * time.Millisecond
	c := servers.ZooKeeperEnsemble(t, 3, servers.Tick(tick))
	url := fmt.Sprintf("zk://%s?tick=%v", strings.Join(c.Endpoints(), ","), tick)
	return site{url: url, faults: quorumFaults(c.Nodes, c.Leader)}
}

func postgresSite(t testing.TB, _ time.Duration) site {
	clock, options := newClock(t)
	p := servers.Postgres(t, options...)
	db := p.DB(t)
	faults := []fault{
		command("backends-end", "the server ends all connections", p.Addr(), func(ctx context.Context) (string, error) {
			var n int
			err := db.QueryRowContext(ctx, `SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
				WHERE pid <> pg_backend_pid() AND backend_type = 'client backend'`).Scan(&n)
			return fmt.Sprint(n, " of them"), err
		}),
	}
	faults = slices.Concat(serverFaults(p, answers(db)), faults, clockSteps(clock, p.Addr()))
	return site{url: p.URL("postgres", "", "postgres"), faults: faults}
}

func mariadbSite(t testing.TB, _ time.Duration) site {
	m := servers.MariaDB(t)
	db := m.DB(t)
	if _, err := db.ExecContext(t.Context(), "CREATE DATABASE locks"); err != nil {
		t.Fatal(err)
	}
	end := func(ctx context.Context) (string, error) { return endConnections(ctx, db) }
	return site{url: m.URL("root", "", "locks"), faults: append(serverFaults(m, answers(db)),
		command("connections-end", "the server ends all connections", m.Addr(), end))}
}

// endConnections ends all connections of MariaDB but this one.
func endConnections(ctx context.Context, db *sql.DB) (proof string, err error) {
	rows, err := db.QueryContext(ctx,
		`SELECT id FROM information_schema.processlist WHERE id <> connection_id() AND user <> 'system user'`)
	if err != nil {
		return "", err
	}
	defer rows.Close()
	var ids []int64
	for rows.Next() {
		var id int64
		if err := rows.Scan(&id); err != nil {
			return "", err
		}
		ids = append(ids, id)
	}
	if err := rows.Err(); err != nil {
		return "", err
	}
	ended := 0
	for _, id := range ids {
		if _, err := db.ExecContext(ctx, fmt.Sprint("KILL ", id)); err == nil { // it may have ended by itself
			ended++
		}
	}
	return fmt.Sprint(ended, " of them"), nil
}

// answers returns a function that waits until a database responds.
func answers(db *sql.DB) func() error {
	return func() error { return awaitHealth(db.PingContext) }
}
