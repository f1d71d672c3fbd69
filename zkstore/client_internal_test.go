package zkstore

import (
	"net"
	"strings"
	"testing"
	"time"
)

// A server reports its sessions to the leader every half tick, and a request that it forwards between two reports
// extends nothing. So what a request proves is what was sent a lag before it, however long it takes.
func TestAlive(t *testing.T) {
	t.Parallel()
	const lag = 2 * time.Second
	start := time.Now()
	at := func(seconds float64) time.Time { return start.Add(time.Duration(seconds * float64(time.Second))) }
	for _, test := range []struct {
		name   string
		before []float64 // what was sent
		sent   float64   // the request
		after  []float64 // what was sent until its response
		want   float64   // -1: nothing is known
	}{
		{"the ping before, not the request itself", []float64{0, 2.7}, 5.3, []float64{5.3}, 2.7},
		{"not what was sent less than the lag before", []float64{0, 2.7}, 4.6, nil, 0},
		{"what was sent just the lag before", []float64{0, 2.7}, 4.7, nil, 2.7},
		{"of a busy client", []float64{0, 1, 2, 3, 4, 5}, 6, nil, 4},
		{"the response comes late", []float64{0, 1, 2, 3, 4, 5}, 6, []float64{6, 7, 8, 9, 10}, 4},
		{"nothing yet", []float64{0}, 0.5, nil, -1},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := &client{lag: lag, link: &link{sent: touches{lag: lag}}}
			for _, touch := range test.before {
				c.link.sent.add(at(touch), at(touch))
			}
			p := c.proof(at(test.sent))
			for _, touch := range test.after {
				c.link.sent.add(at(touch), at(touch))
			}
			want := time.Time{}
			if test.want >= 0 {
				want = at(test.want)
			}
			if got := c.alive(p); !got.Equal(want) {
				t.Errorf("the session is known to live as of %v, want %v", got.Sub(start), want.Sub(start))
			}
		})
	}
}

// A request that another server may have carried out proves nothing, nor does one that was sent without a connection.
func TestAliveOverAnotherConnection(t *testing.T) {
	t.Parallel()
	c := &client{lag: time.Second, changed: make(chan struct{})}
	start := time.Now()
	dial := func() {
		c.dialed = &link{sent: touches{lag: c.lag}}
		c.dialed.sent.add(start, start)
	}
	later := start.Add(2 * c.lag)
	dial()
	unconnected := c.proof(later)
	c.connected()
	if got := c.alive(c.proof(later)); !got.Equal(start) {
		t.Errorf("the session is known to live as of %v, want %v", got, start)
	}
	old := c.proof(later)
	c.disconnected()
	if got := c.alive(old); !got.IsZero() {
		t.Errorf("without a connection, the session is known to live as of %v", got)
	}
	dial()
	c.connected()
	for _, p := range []proof{unconnected, old} {
		if got := c.alive(p); !got.IsZero() {
			t.Errorf("over another connection, the session is known to live as of %v", got)
		}
	}
}

// However often something is sent, what is kept is bounded, and no time is invented: what is returned was sent, and it
// is no more than the spacing older than the last by then.
func TestTouches(t *testing.T) {
	t.Parallel()
	const lag = time.Second
	start := time.Now()
	sent := touches{lag: lag}
	for ms := range 10_000 {
		now := start.Add(time.Duration(ms) * time.Millisecond)
		sent.add(now, now)
		limit := now.Add(-lag)
		got := sent.before(limit)
		if limit.Before(start) != got.IsZero() {
			t.Fatalf("after %v, %v is the last before %v", now.Sub(start), got, limit.Sub(start))
		}
		if early := limit.Sub(got); !got.IsZero() && (early < 0 || early >= lag/spacing) {
			t.Fatalf("what was sent by %v was last sent %v before", limit.Sub(start), early)
		}
		if len(sent.times) > spacing+2 {
			t.Fatalf("%d times are kept", len(sent.times))
		}
	}
}

// A host without an address, as one that is just being restarted may be, is like one that can't be reached: it is no
// reason to give up.
func TestHostWithoutAddress(t *testing.T) {
	t.Parallel()
	missing := &net.OpError{
		Op:  "dial",
		Net: "tcp",
		Err: &net.DNSError{Err: "no such host", Name: "h1", IsNotFound: true},
	}
	if why, final := explain(missing); final || !strings.Contains(why.Error(), "cannot be reached") {
		t.Errorf("%v, final: %v", why, final)
	}
}
