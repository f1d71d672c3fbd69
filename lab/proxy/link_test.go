package proxy

import (
	"strings"
	"testing"

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
