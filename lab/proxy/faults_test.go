package proxy

import (
	"net"
	"slices"
	"testing"
	"time"
)

func TestHoldRequests(t *testing.T) {
	e, p := setUp(t)
	c := dial(t, p)
	release, again := p.Hold(Requests), p.Hold(Requests)
	c.send("1")
	c.send("2")
	c.hearNothing()
	checkLanded(t, e)
	release()
	release()
	c.hearNothing() // the other hold is still on
	checkLanded(t, e)
	again()
	c.hear("re:1", "re:2")
	checkLanded(t, e, "1", "2")
}

// The client gives up and closes. What it sent lands all the same, and then its end.
func TestLateDelivery(t *testing.T) {
	for name, leave := range map[string]func(*net.TCPConn){
		"orderly":  func(c *net.TCPConn) { c.Close() },
		"abruptly": func(c *net.TCPConn) { reset(c) },
	} {
		t.Run(name, func(t *testing.T) {
			e, p := setUp(t)
			c := dial(t, p)
			c.call("0")
			release := p.Hold(Requests)
			c.send("1")
			c.send("2")
			await(t, "requests", func() bool { return p.Held(Requests) == 4 })
			leave(c.Conn.(*net.TCPConn))
			other := dial(t, p)
			other.hearNothing()
			checkLanded(t, e, "0")
			release()
			checkLanded(t, e, "0", "1", "2")
			await(t, "end of the client's connection", func() bool { return p.Connections() == 1 && e.open() == 1 })
		})
	}
}

// The answer to the first request finds nobody. The second request is still on its way, and lands.
func TestLateDeliveryGoesOn(t *testing.T) {
	e, p := setUp(t)
	c := dial(t, p)
	release := p.Hold(Requests)
	c.send("1")
	await(t, "the first request", func() bool { return p.Held(Requests) == 2 })
	defer p.Delay(Requests, 2*moment)()
	c.send("2")
	await(t, "the second request", func() bool { return p.Held(Requests) == 4 })
	reset(c.Conn)
	release()
	checkLanded(t, e, "1", "2")
}

// When release returns, what was held is with the server's kernel.
func TestReleaseDelivers(t *testing.T) {
	_, p := setUp(t)
	c := dial(t, p)
	for range 20 {
		release := p.Hold(Requests)
		c.send("1")
		await(t, "the request", func() bool { return p.Held(Requests) == 2 })
		release()
		if held := p.Held(Requests); held != 0 {
			t.Fatalf("%d bytes are still held after release", held)
		}
		c.hear("re:1")
	}
}

// A receiver that does not read must not hold up whoever releases.
func TestReleaseDoesNotHang(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0") // nobody accepts
	must(t, err)
	defer l.Close()
	p := startProxy(t, "tcp", l.Addr().String())
	release := p.Hold(Requests)
	c := dial(t, p)
	if _, err := c.Write(make([]byte, maxHeld)); err != nil {
		t.Fatal(err)
	}
	await(t, "the request", func() bool { return p.Held(Requests) == maxHeld })
	began := time.Now()
	release()
	if took := time.Since(began); took > patience/2 {
		t.Errorf("release took %v", took)
	}
}

func TestHoldReplies(t *testing.T) {
	e, p := setUp(t)
	c := dial(t, p)
	release := p.Hold(Replies)
	c.send("1")
	checkLanded(t, e, "1")
	c.hearNothing()
	c.send("2")
	checkLanded(t, e, "1", "2")
	release()
	c.hear("re:1", "re:2")
}

func TestHoldOnlyNew(t *testing.T) {
	_, p := setUp(t)
	release := p.Hold(Requests | OnlyNew)
	fresh := dial(t, p)
	fresh.send("1")
	fresh.hearNothing()
	release()
	fresh.hear("re:1")
}

// A connection that the proxy has not even accepted is an old one, if it was made before.
func TestHoldSparesOld(t *testing.T) {
	_, p := setUp(t)
	for range 100 {
		var olds []*client
		for range 4 {
			olds = append(olds, dial(t, p))
		}
		release := p.Hold(Requests | OnlyNew)
		for _, old := range olds {
			old.call("1")
			old.Close()
		}
		release()
	}
}

func TestSilence(t *testing.T) {
	for name, test := range map[string]struct {
		flows  Flow
		landed []string
	}{
		"both ways":   {All, []string{"0"}},
		"to server":   {Requests, []string{"0"}},
		"from server": {Down, []string{"0", "1", "2"}},
	} {
		t.Run(name, func(t *testing.T) {
			e, p := setUp(t)
			old := dial(t, p)
			old.call("0")
			end := p.Silence(test.flows)
			fresh := dial(t, p)
			old.send("1")
			old.hearNothing()
			checkLanded(t, e, test.landed[:min(2, len(test.landed))]...) // before 2, on a way of its own
			fresh.send("2")
			fresh.hearNothing()
			checkLanded(t, e, test.landed...)
			awaitHoles(t, p, 2)
			end()
			// A stream with a hole is of no use to anybody.
			old.hearEnd()
			fresh.hearEnd()
			c := dial(t, p)
			c.call("3")
			checkLanded(t, e, append(test.landed, "3")...)
		})
	}
}

// A connection over which nothing was sent meanwhile has lost nothing, and goes on.
func TestSilenceUnnoticed(t *testing.T) {
	_, p := setUp(t)
	c := dial(t, p)
	c.call("1")
	p.Silence(All)()
	c.call("2")
}

// The other direction must not end a connection whose answers are lost while one more silence goes on.
func TestSilences(t *testing.T) {
	_, p := setUp(t)
	c := dial(t, p)
	first, second := p.Silence(All), p.Silence(Down)
	c.send("1")
	awaitHoles(t, p, 1)
	c.hearNothing()
	second()
	c.hearNothing()
	first()
	c.hearEnd()
}

func TestDelay(t *testing.T) {
	const latency = 50 * time.Millisecond
	_, p := setUp(t)
	c := dial(t, p)
	roundTrip := func() time.Duration {
		t.Helper()
		began := time.Now()
		c.call("1")
		return time.Since(began)
	}
	end := p.Delay(All, latency)
	if took := roundTrip(); took < 2*latency {
		t.Errorf("a round trip took %v, want at least %v", took, 2*latency)
	}
	both := p.Delay(Requests, latency)
	if took := roundTrip(); took < 3*latency {
		t.Errorf("a round trip took %v, want at least %v", took, 3*latency)
	}
	both()
	end()
	// One of many must be quick: a busy machine may delay some, too.
	await(t, "quick round trip", func() bool { return roundTrip() < latency })
}

// What is sent when the delay is over does not overtake what was sent before.
func TestDelayKeepsOrder(t *testing.T) {
	e, p := setUp(t)
	c := dial(t, p)
	end := p.Delay(Requests, 10*moment)
	c.send("1")
	await(t, "the request", func() bool { return p.Held(Requests) == 2 || len(e.lines()) > 0 })
	end()
	c.send("2")
	checkLanded(t, e, "1", "2")
}

func TestLoseReplies(t *testing.T) {
	e, p := setUp(t)
	a, b := dial(t, p), dial(t, p)
	a.call("0")
	p.LoseReplies(1)
	a.send("1")
	checkLanded(t, e, "0", "1")
	a.hearNothing()
	b.call("2")
	a.send("3") // it lands, and its answer must not be taken for that to 1
	checkLanded(t, e, "0", "1", "2", "3")
	a.hearNothing()
	a.Close()
	await(t, "end of the silent connection", func() bool { return p.Connections() == 1 && e.open() == 1 })
	p.LoseReplies(1)
	b.send("4")
	checkLanded(t, e, "0", "1", "2", "3", "4")
	p.Heal()
	b.hearEnd()
}

func TestMute(t *testing.T) {
	e, p := setUp(t)
	a, b := dial(t, p), dial(t, p)
	a.call("1")
	p.Mute()
	a.send("2") // it lands
	checkLanded(t, e, "1", "2")
	a.hearNothing()
	c := dial(t, p)
	c.call("3")
	b.send("4") // it was silent before anything was sent
	checkLanded(t, e, "1", "2", "3", "4")
	b.hearNothing()
	a.Close()
	await(t, "end of a silent connection", func() bool { return p.Connections() == 2 && e.open() == 2 })
	p.Heal()
	b.hearEnd()
	c.call("5")
}

func TestCut(t *testing.T) {
	e, p := setUp(t)
	held, waiting := dial(t, p), dial(t, p)
	release := p.Hold(Requests)
	held.send("1")
	await(t, "the request", func() bool { return p.Held(Requests) == 2 })
	mend := p.Cut()
	if n := p.Connections(); n != 0 {
		t.Errorf("%d connections after the cut", n)
	}
	held.hearEnd()
	waiting.hearEnd()
	checkRefused(t, p)
	mend()
	release()
	checkLanded(t, e) // what was held is lost for ever
	c := dial(t, p)
	c.call("2")
	checkLanded(t, e, "2")
}

// A client has connected and sent something. The cut is quicker than the proxy's accept, and so is its end.
func TestCutReachesWhatWasNotAccepted(t *testing.T) {
	e, p := setUp(t)
	for range 50 {
		var clients []*client
		release := p.Hold(Requests)
		for range 4 {
			c := dial(t, p)
			c.send("lost")
			clients = append(clients, c)
		}
		p.Cut()()
		release()
		for _, c := range clients {
			c.hearEnd()
		}
	}
	checkLanded(t, e)
}

func TestCloseAll(t *testing.T) {
	_, p := setUp(t)
	old := dial(t, p)
	p.CloseAll()
	old.hearEnd()
	c := dial(t, p)
	c.call("1")
}

func TestRefuse(t *testing.T) {
	_, p := setUp(t)
	old := dial(t, p)
	end := p.Refuse()
	checkRefused(t, p)
	old.call("1")
	end()
	c := dial(t, p)
	c.call("2")
}

func TestHeal(t *testing.T) {
	e, p := setUp(t)
	c := dial(t, p)
	release := p.Hold(All)
	p.Delay(All, time.Nanosecond)
	c.send("1")
	await(t, "the request", func() bool { return p.Held(Requests) == 2 })
	p.Heal()
	c.hear("re:1")
	release()
	p.Hold(Requests)
	p.Cut()
	p.Silence(All)
	p.LoseReplies(3)
	p.Heal()
	c.hearEnd()
	c = dial(t, p)
	c.call("2")
	if got := e.lines(); !slices.Equal(got, []string{"1", "2"}) {
		t.Errorf("landed: %q", got)
	}
}
