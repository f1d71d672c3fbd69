package servers

import (
	"testing"
	"time"
)

// A replica that is promoted has what it had received, and not what its primary committed after StopReplication.
func TestMariaDBReplica(t *testing.T) {
	m := MariaDB(t)
	execute(t, m.DB(t), "CREATE DATABASE d")
	execute(t, m.DB(t), "CREATE TABLE d.one (v INT)")
	r := m.Replica(t)
	insert := func(value int) { execute(t, m.DB(t), "INSERT INTO d.one VALUES (?)", value) }
	insert(1)
	check(t, r.AwaitCaughtUp())
	check(t, r.StopReplication())
	insert(2)
	check(t, r.ResumeReplication())
	check(t, r.AwaitCaughtUp())
	check(t, r.Restart(true))
	insert(3)
	check(t, r.AwaitCaughtUp())
	check(t, r.StopReplication())
	insert(4)
	check(t, m.Kill())
	check(t, r.Promote())
	execute(t, r.DB(t), "INSERT INTO d.one VALUES (5)")
	const all = "SELECT GROUP_CONCAT(v ORDER BY v SEPARATOR ' ') FROM d.one"
	if got := scalar(t, r.DB(t), all); got != "1 2 3 5" {
		t.Errorf("the promoted replica has %s, want 1 2 3 5", got)
	}
	check(t, m.LoseData())
	check(t, m.Start())
	check(t, m.Follow(r))
	if got := scalar(t, m.DB(t), all); got != "1 2 3 5" {
		t.Errorf("the old primary has %s from the new one, want 1 2 3 5", got)
	}
}

// A primary that is semi-synchronous does not acknowledge what its replica has not received.
func TestMariaDBSemiSync(t *testing.T) {
	m := MariaDB(t, TLS(NewCertificates(t)), Password("correct horse"))
	r := m.Replica(t)
	check(t, m.SemiSync(true))
	db := m.DB(t)
	execute(t, db, "CREATE DATABASE d")
	check(t, r.StopReplication())
	committed := make(chan error, 1)
	go func() {
		_, err := db.Exec("CREATE TABLE d.one (v INT)")
		committed <- err
	}()
	select {
	case err := <-committed:
		t.Errorf("the primary did not wait for its replica: %v", err)
	case <-time.After(200 * time.Millisecond):
		check(t, r.ResumeReplication())
		check(t, <-committed)
	}
	check(t, r.Stop())
	check(t, m.SemiSync(false))
	execute(t, db, "INSERT INTO d.one VALUES (2)")
}
