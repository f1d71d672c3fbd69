package proxy_test

import (
	"fmt"
	"net"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/servers"
	"github.com/holdfast-go/holdfast/internal/testkit"
	"github.com/holdfast-go/holdfast/lab/proxy"
)

// With a real Redis, over connections as a RESP2 client has them.
func TestLinkWithRedis(t *testing.T) {
	redis := servers.Redis(t)
	p := testkit.Proxy(t, redis.Addr(), proxy.Classify(proxy.RESP2))
	link := p.Link()
	connect := func() *servers.Conn {
		t.Helper()
		conn, err := net.Dial("tcp", p.Addr())
		testkit.Must(t, err)
		t.Cleanup(func() { conn.Close() })
		return servers.NewConn(conn, 30*time.Second)
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
	testkit.Await(t, "the push", func() bool { return p.Held(proxy.Pushes) > 0 })
	release()
	answer, err = pushes.Receive()
	check("[message channel hello]", answer, err)

	// A request that was held back lands though its client has gone.
	release = link.HoldRequests()
	testkit.Must(t, calls.Send("SET", "late", "1"))
	testkit.Await(t, "the request", func() bool { return p.Held(proxy.Requests) > 0 })
	calls.Close()
	answer, err = redis.Do("EXISTS", "late")
	check("0", answer, err)
	release()
	testkit.Await(t, "landing", func() bool {
		answer, err := redis.Do("GET", "late")
		return err == nil && answer == "1"
	})
}
