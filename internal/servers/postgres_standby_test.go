package servers

import (
	"testing"
	"time"
)

// A standby that is promoted has what it had received, and not what its primary committed after StopReplication.
func TestPostgresStandby(t *testing.T) {
	p := Postgres(t)
	db := p.DB(t)
	execute(t, db, "CREATE TABLE one (v INT)")
	s := p.Standby(t)
	execute(t, db, "INSERT INTO one VALUES (1)")
	check(t, s.AwaitCaughtUp())
	check(t, s.StopReplication())
	execute(t, db, "INSERT INTO one VALUES (2)")
	if _, err := s.DB(t).Exec("INSERT INTO one VALUES (3)"); err == nil {
		t.Error("a standby took a write")
	}
	check(t, s.ResumeReplication())
	check(t, s.AwaitCaughtUp())
	check(t, s.StopReplication())
	execute(t, db, "INSERT INTO one VALUES (4)")
	check(t, p.Kill())
	check(t, s.Promote())
	execute(t, s.DB(t), "INSERT INTO one VALUES (5)")
	if got := scalar(t, s.DB(t), "SELECT STRING_AGG(CAST(v AS TEXT), ' ' ORDER BY v) FROM one"); got != "1 2 5" {
		t.Errorf("the promoted standby has %s, want 1 2 5", got)
	}
}

// A primary that is synchronous does not acknowledge what its standby has not received.
func TestPostgresSynchronous(t *testing.T) {
	p := Postgres(t, Password("correct horse"))
	s := p.Standby(t)
	check(t, p.Synchronous(1))
	db := p.DB(t)
	execute(t, db, "CREATE TABLE one (v INT)")
	check(t, s.StopReplication())
	committed := make(chan error, 1)
	go func() {
		_, err := db.Exec("INSERT INTO one VALUES (1)")
		committed <- err
	}()
	select {
	case err := <-committed:
		t.Errorf("the primary did not wait for its standby: %v", err)
	case <-time.After(200 * time.Millisecond):
		check(t, s.ResumeReplication())
		check(t, <-committed)
	}
	check(t, s.Restart(false)) // it copies the primary anew
	check(t, s.AwaitStreaming())
	check(t, s.Stop())
	check(t, p.Synchronous(0))
	execute(t, db, "INSERT INTO one VALUES (2)")
}
