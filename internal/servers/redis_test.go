package servers

import (
	"fmt"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"
)

// do sends a server a command that must work, over a connection of its own or over this one, and gives its answer as
// text.
func do(t *testing.T, to interface{ Do(...string) (any, error) }, args ...string) string {
	t.Helper()
	answer, err := to.Do(args...)
	if err != nil {
		t.Fatalf("%s: %v", args[0], err)
	}
	return fmt.Sprint(answer)
}

func TestRedis(t *testing.T) {
	r := Redis(t)
	if got := do(t, r, "SET", "key", "a value\r\nof two lines"); got != "OK" {
		t.Errorf("SET: %s", got)
	}
	conn, err := net.Dial("unix", r.Socket())
	check(t, err)
	c := NewConn(conn, answerPatience)
	defer c.Close()
	for _, test := range []struct{ command, want string }{
		{"GET key", "a value\r\nof two lines"},
		{"GET nothing", "<nil>"},
		{"GET", "ERR wrong number of arguments for 'get' command"},
		{"INCR n", "1"},
		{"MGET n nothing n", "[1 <nil> 1]"},
		{"BLPOP nothing 0.01", "<nil>"},
	} {
		answer, err := c.Do(strings.Split(test.command, " ")...)
		got := fmt.Sprint(answer)
		if err != nil {
			got = err.Error()
		}
		if got != test.want {
			t.Errorf("%s: %s, want %s", test.command, got, test.want)
		}
	}
}

func TestRedisRestart(t *testing.T) {
	r := Redis(t)
	testRestart(t, r.Server,
		func(value string) { do(t, r, "SET", "key", value) },
		func() string { return do(t, r, "GET", "key") })
}

func TestRedisPause(t *testing.T) {
	r := Redis(t)
	check(t, r.Pause())
	conn, err := net.Dial("tcp", r.Addr())
	check(t, err)
	c := NewConn(conn, 200*time.Millisecond)
	defer c.Close()
	if answer, err := c.Do("PING"); err == nil {
		t.Errorf("a paused server answers %v", answer)
	}
	check(t, r.Continue())
	c.patience = answerPatience
	if answer, err := c.Receive(); answer != "PONG" {
		t.Errorf("a server that goes on answers %v, %v", answer, err)
	}
}

func TestStateErrors(t *testing.T) {
	r := Redis(t)
	if r.Start() == nil || r.LoseData() == nil {
		t.Error("a running server was started, or lost its data")
	}
	check(t, r.Stop())
	for what, act := range map[string]func() error{
		"stop": r.Stop, "kill": r.Kill, "pause": r.Pause, "continue": r.Continue,
	} {
		if err := act(); err == nil || !strings.Contains(err.Error(), "redis-server: "+what) {
			t.Errorf("%s of a stopped server: %v", what, err)
		}
	}
}

func TestRedisOptions(t *testing.T) {
	for _, test := range []struct {
		name    string
		options []Option
		command []string
		want    string
	}{
		{"memory", []Option{Args("--maxmemory", "64mb")}, []string{"CONFIG", "GET", "maxmemory"},
			"[maxmemory 67108864]"},
		{"args win", []Option{Args("--appendonly", "no")}, []string{"CONFIG", "GET", "appendonly"}, "[appendonly no]"},
		{"no fsync", nil, []string{"CONFIG", "GET", "appendfsync"}, "[appendfsync no]"},
		{"fsync", []Option{Args("--appendfsync", "always")}, []string{"CONFIG", "GET", "appendfsync"},
			"[appendfsync always]"},
		{"password", []Option{Password("correct horse")}, []string{"ACL", "WHOAMI"}, "default"},
		{"users", []Option{ACL("user default off", "user ann on >secret ~a:* +get")}, []string{"ACL", "USERS"},
			"[ann default holdfast-servers]"},
		{"certificates", []Option{TLS(NewCertificates(t)), Args("--tls-auth-clients", "yes")}, []string{"PING"},
			"PONG"},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := do(t, Redis(t, test.options...), test.command...); got != test.want {
				t.Errorf("%v: %s, want %s", test.command, got, test.want)
			}
		})
	}
}

// What the options forbid must be forbidden.
func TestRedisRefuses(t *testing.T) {
	for name, option := range map[string]Option{
		"password":     Password("correct horse"),
		"users":        ACL("user default off"),
		"certificates": TLS(NewCertificates(t)),
	} {
		t.Run(name, func(t *testing.T) { refusesStrangers(t, Redis(t, option)) })
	}
}

func refusesStrangers(t *testing.T, r *RedisServer) {
	t.Helper()
	conn, err := net.Dial("tcp", r.Addr())
	check(t, err)
	c := NewConn(conn, answerPatience)
	defer c.Close()
	if answer, err := c.Do("PING"); err == nil {
		t.Errorf("a stranger got the answer %v", answer)
	}
}

// The server's clock follows the steps, and so do the ends of its keys.
func TestClock(t *testing.T) {
	clock := NewClock(t)
	r := Redis(t, Env(clock.Env()...))
	do(t, r, "SET", "short", "1", "EX", "60")
	do(t, r, "SET", "long", "1", "EX", "7200")
	// With a nanosecond less than a second the fraction runs over, forward and then back.
	steps := []time.Duration{0, time.Second - 1, 90 * time.Second, -3 * time.Hour, time.Hour, 1 - time.Second}
	for _, step := range steps {
		clock.Step(step)
		before := time.Now().Add(clock.Offset()).Truncate(time.Microsecond)
		answer, err := r.Do("TIME")
		after := time.Now().Add(clock.Offset())
		parts, ok := answer.([]any)
		if err != nil || !ok || len(parts) != 2 {
			t.Fatalf("TIME: %v, %v", answer, err)
		}
		seconds, err1 := strconv.ParseInt(fmt.Sprint(parts[0]), 10, 64)
		micros, err2 := strconv.ParseInt(fmt.Sprint(parts[1]), 10, 64)
		if err1 != nil || err2 != nil {
			t.Fatalf("TIME: %v", answer)
		}
		// Redis looks at the clock when it wakes up for a command, so its answer is never older than the question.
		if now := time.UnixMicro(seconds*1e6 + micros); now.Before(before) || now.After(after) {
			t.Errorf("after a step of %v the server says %v, want from %v to %v", step, now, before, after)
		}
		if step == 90*time.Second {
			if got := do(t, r, "EXISTS", "short", "long"); got != "1" {
				t.Errorf("%s of the two keys are there, 90 seconds later", got)
			}
		}
	}
}
