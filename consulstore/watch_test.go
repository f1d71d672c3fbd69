package consulstore_test

import (
	"fmt"
	"testing"

	"github.com/holdfast-go/holdfast/consulstore"
	"github.com/holdfast-go/holdfast/internal/servers"
	"github.com/holdfast-go/holdfast/internal/testkit"
	"github.com/holdfast-go/holdfast/store"
)

// Claims wait, and give up, again and again. What they leave behind at the server is no more than what one client may
// have there, and those that wait then are told all the same.
func TestGivenUpWatches(t *testing.T) {
	t.Parallel()
	const names, most = 40, 32 + 1
	server := servers.Consul(t)
	s, err := consulstore.Open(t.Context(), []string{server.Addr()}, consulstore.TTL(10*sessionTTL))
	testkit.Must(t, err)
	t.Cleanup(func() { s.Close() })
	told := testkit.Listen(s)
	queries := func() int {
		n, err := server.BlockingQueries(t.Context())
		testkit.Must(t, err)
		return n
	}
	claim := func(n int) store.Claim { return testkit.Claim(fmt.Sprint("lock ", n), 10*sessionTTL) }
	held, waiting := make([]store.Claim, names), make([]store.Claim, names)
	for i := range names {
		held[i] = testkit.Held(t, s, claim(i))
	}
	for round := range 3 {
		for i := range names {
			waiting[i] = testkit.Waiting(t, s, claim(i))
		}
		testkit.Await(t, fmt.Sprint("blocking queries in round ", round), func() bool { return queries() >= most })
		if n := queries(); n > most {
			t.Fatalf("%d blocking queries are under way in round %d", n, round)
		}
		if round < 2 {
			for _, c := range waiting {
				testkit.Leave(t, s, c)
			}
		}
	}
	for i := range names {
		testkit.Leave(t, s, held[i])
		testkit.AwaitTold(t, told, waiting[i].ID, "the release")
	}
}
