package servers

import (
	"context"
	"strings"
	"testing"
)

// write has a server set a key, and gives how many replicas acknowledge it within so many milliseconds, for as long as
// they are fewer than wanted.
func write(t *testing.T, r *RedisServer, key, value, wanted, millis string) (acknowledged string) {
	t.Helper()
	c, err := r.Dial()
	check(t, err)
	defer c.Close()
	do(t, c, "SET", key, value)
	return do(t, c, "WAIT", wanted, millis) // for what this connection wrote
}

// checkSoon demands what is so already, of servers that may take a while to say so.
func checkSoon(t *testing.T, so func() error) {
	t.Helper()
	check(t, poll(func(context.Context) error { return so() }))
}

// has demands a value that is there already.
func has(t *testing.T, r *RedisServer, key, want string) {
	t.Helper()
	if got := do(t, r, "GET", key); got != want {
		t.Errorf("%s has %s for %s, want %s", r.Addr(), got, key, want)
	}
}

// awaitValue waits for a value that is on its way.
func awaitValue(t *testing.T, r *RedisServer, key, want string) {
	t.Helper()
	await(t, "value "+want, func() bool { return do(t, r, "GET", key) == want })
}

func TestRedisReplicas(t *testing.T) {
	t.Parallel()
	r := RedisReplicas(t, 2)
	info, err := r.Master.replication()
	check(t, err)
	for _, replica := range []string{info["slave0"], info["slave1"]} {
		if !strings.Contains(replica, "state=online") {
			t.Errorf("the master does not count on a replica yet: %q", replica)
		}
	}
	if got := write(t, r.Master, "key", "1", "2", "15000"); got != "2" {
		t.Errorf("%s of two replicas acknowledged", got)
	}
	has(t, r.Replicas[0], "key", "1")
	has(t, r.Replicas[1], "key", "1")
	if _, err := r.Replicas[0].Do("SET", "key", "2"); err == nil {
		t.Error("a replica takes writes")
	}

	// It is still a replica when it comes back.
	check(t, r.Replicas[0].Kill())
	write(t, r.Master, "key", "2", "1", "15000")
	check(t, r.Replicas[0].Start())
	awaitValue(t, r.Replicas[0], "key", "2")
}

func TestRedisPromote(t *testing.T) {
	t.Parallel()
	r := RedisReplicas(t, 2)
	write(t, r.Master, "key", "1", "2", "15000")
	first, second, third := r.Master, r.Replicas[1], r.Replicas[0]
	check(t, r.Promote(1))
	if r.Master != second || r.Replicas[0] != third || r.Replicas[1] != first {
		t.Errorf("the roles are %v", r.Addrs())
	}
	// The old master was told nothing.
	write(t, first, "key", "of the old master", "0", "0")
	if got := write(t, second, "key", "2", "1", "15000"); got != "1" {
		t.Errorf("%s of one replica acknowledged", got)
	}
	has(t, third, "key", "2")
	check(t, first.Follow(second))
	has(t, first, "key", "2")

	// The new master stays one when it comes back, and one that is stopped cannot follow yet.
	check(t, second.Restart(true))
	checkSoon(t, func() error { return first.checkRole("slave") })
	checkSoon(t, func() error { return second.checkRole("master") })
	check(t, second.Kill())
	check(t, third.Kill())
	check(t, r.Promote(1))
	has(t, r.Master, "key", "2")
	check(t, third.Start())
	check(t, third.Follow(r.Master))
	write(t, r.Master, "key", "3", "1", "15000")
	has(t, third, "key", "3")
}

func TestRedisLag(t *testing.T) {
	t.Parallel()
	r := RedisReplicas(t, 2)
	slow, quick := r.Replicas[0], r.Replicas[1]
	write(t, r.Master, "key", "1", "2", "15000")
	check(t, slow.Lag())
	c, err := r.Master.Dial()
	check(t, err)
	defer c.Close()
	do(t, c, "SET", "key", "2")
	do(t, c, "WAIT", "1", "15000")
	if got := do(t, c, "WAIT", "2", "300"); got != "1" {
		t.Errorf("%s replicas acknowledged, and one lags", got)
	}
	has(t, quick, "key", "2")
	has(t, slow, "key", "1")
	checkSoon(t, func() error { return slow.checkFollows(r.Master) })
	check(t, slow.CatchUp())
	awaitValue(t, slow, "key", "2")
	if got := write(t, r.Master, "key", "3", "2", "15000"); got != "2" {
		t.Errorf("%s of two replicas acknowledged, after one has caught up", got)
	}

	// What a replica lagged behind is lost if it is promoted.
	check(t, slow.Lag())
	write(t, r.Master, "key", "4", "1", "15000")
	check(t, r.Promote(0))
	has(t, slow, "key", "3")
	has(t, quick, "key", "3")
	if got := write(t, slow, "key", "5", "1", "15000"); got != "1" {
		t.Errorf("%s of one replica acknowledged what a master wrote that had lagged", got)
	}

	// One that lags and follows another catches up with that one.
	check(t, quick.Lag())
	write(t, slow, "key", "6", "0", "0")
	check(t, r.Replicas[0].Follow(slow))
	check(t, quick.Follow(r.Replicas[0]))
	awaitValue(t, quick, "key", "6")
}

func TestRedisReplicasOptions(t *testing.T) {
	t.Parallel()
	for name, options := range map[string][]Option{
		"password":     {Password("correct horse")},
		"users":        {ACL("user default off")},
		"certificates": {TLS(NewCertificates(t)), Args("--tls-auth-clients", "yes"), Password("correct horse")},
	} {
		t.Run(name, func(t *testing.T) {
			r := RedisReplicas(t, 1, options...)
			if got := write(t, r.Master, "key", "1", "1", "15000"); got != "1" {
				t.Errorf("%s of one replica acknowledged", got)
			}
		})
	}
}
