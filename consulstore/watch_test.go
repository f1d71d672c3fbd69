package consulstore_test

import (
	"testing"

	"github.com/holdfast-go/holdfast/internal/testkit"
)

// Claims wait for the same holder, one after the other, and give up. They share one blocking query, and the last one is
// told of the release.
func TestWatchSetAgain(t *testing.T) {
	c := newCounter(t)
	s, _ := c.open()
	told := testkit.Listen(s)
	held := testkit.Held(t, s, testkit.Claim("wanted", costTTL))
	for range 5 {
		waiting := testkit.Waiting(t, s, testkit.Claim("wanted", costTTL))
		testkit.Await(t, "the blocking query is under way", func() bool { return c.queries() >= 2 })
		testkit.Leave(t, s, waiting)
	}
	last := testkit.Waiting(t, s, testkit.Claim("wanted", costTTL))
	if n := c.queries(); n > 2 {
		t.Errorf("%d blocking queries are under way, and one is the session's", n)
	}
	testkit.Leave(t, s, held)
	testkit.AwaitTold(t, told, last.ID, "the release")
}
