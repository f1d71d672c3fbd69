package proxy

import (
	"fmt"
	"net"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/internal/servers"
	"github.com/holdfast-go/holdfast/store/storetest"
)

var _ storetest.Link = (*Link)(nil)

// byFirstLine tells the connections of the echo server apart.
func byFirstLine(sent []byte) Flow {
	switch {
	case len(sent) < len("push\n"):
		return 0
	case strings.HasPrefix(string(sent), "push\n"):
		return Pushes
	default:
		return Replies
	}
}

func TestLinkHolds(t *testing.T) {
	e, p := setUp(t, Classify(byFirstLine))
	link := p.Link()
	calls, pushes := dial(t, p), dial(t, p)
	pushes.send("push")
	checkLanded(t, e, "push")
	calls.call("hello")
	pushes.hear("push:hello")

	release := link.HoldPushes()
	calls.call("first")
	pushes.hearNothing()
	release()
	release()
	pushes.hear("push:first")

	release = link.HoldReplies()
	calls.send("second")
	pushes.hear("push:second")
	calls.hearNothing()
	release()
	calls.hear("re:second")

	release = link.HoldRequests()
	calls.send("third")
	calls.hearNothing()
	pushes.hearNothing()
	release()
	calls.hear("re:third")
	pushes.hear("push:third")
}

func TestLinkDropsPushes(t *testing.T) {
	e, p := setUp(t, Classify(byFirstLine))
	link := p.Link()
	calls, pushes := dial(t, p), dial(t, p)
	pushes.send("push")
	checkLanded(t, e, "push")
	calls.call("hello")
	pushes.hear("push:hello")
	link.DropPushes(true)
	link.DropPushes(true)
	calls.call("lost")
	awaitHoles(t, p, 1)
	pushes.hearNothing()
	link.DropPushes(false)
	link.DropPushes(false)
	pushes.hearEnd() // its stream has a hole
	calls.call("after")
}

// Where they cannot be told apart, both are held and neither is dropped.
func TestLinkWithOneConnection(t *testing.T) {
	_, p := setUp(t)
	link := p.Link()
	c := dial(t, p)
	link.DropPushes(true)
	c.call("1")
	link.DropPushes(false)
	for _, hold := range []func() func(){link.HoldPushes, link.HoldReplies} {
		release := hold()
		c.send("2")
		c.hearNothing()
		release()
		c.hear("re:2")
	}
}

func TestLinkCutAndKill(t *testing.T) {
	e, p := setUp(t)
	link := p.Link()
	c := dial(t, p)
	release := link.HoldRequests()
	c.send("1")
	link.Cut()
	link.Cut()
	c.hearEnd()
	link.Heal()
	c = dial(t, p)
	c.send("2")
	c.hearNothing() // the hold has outlived the cut
	release()
	c.hear("re:2")
	link.Kill()
	c.hearEnd()
	link.Heal()
	checkRefused(t, p)
	checkLanded(t, e, "2")
}

// With a real Redis, over connections as a RESP2 client has them.
func TestLinkWithRedis(t *testing.T) {
	redis := servers.Redis(t)
	p := startProxy(t, "tcp", redis.Addr(), Classify(RESP2))
	link := p.Link()
	connect := func() *servers.Conn {
		t.Helper()
		conn, err := net.Dial("tcp", p.Addr())
		must(t, err)
		t.Cleanup(func() { conn.Close() })
		return servers.NewConn(conn, patience)
	}
	check := func(want string, answer any, err error) {
		t.Helper()
		if got := fmt.Sprint(answer); err != nil || got != want {
			t.Fatalf("%s, %v, want %s", got, err, want)
		}
	}
	calls, pushes := connect(), connect()
	answer, err := pushes.Do("subscribe", "channel")
	check("[subscribe channel 1]", answer, err)
	release := link.HoldPushes()
	answer, err = calls.Do("PUBLISH", "channel", "hello")
	check("1", answer, err)
	await(t, "the push", func() bool { return p.Held(Pushes) > 0 })
	release()
	answer, err = pushes.Receive()
	check("[message channel hello]", answer, err)

	// A request that was held back lands though its client has gone.
	release = link.HoldRequests()
	must(t, calls.Send("SET", "late", "1"))
	await(t, "the request", func() bool { return p.Held(Requests) > 0 })
	calls.Close()
	answer, err = redis.Do("EXISTS", "late")
	check("0", answer, err)
	release()
	await(t, "landing", func() bool {
		answer, err := redis.Do("GET", "late")
		return err == nil && answer == "1"
	})
}
