package redisstore

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/holdfast-go/holdfast/internal/rediswire"
	"github.com/holdfast-go/holdfast/store"
)

func TestReadView(t *testing.T) {
	const text = `txt:a 10.0.0.1:6379@16379,one.example myself,master - 0 0 3 connected 0-99 102 [7->-b] [8-<-c]
b 10.0.0.2:6379@16379,,tls-port=0,shard-id=1 master,fail? - 0 0 2 disconnected 100-101
c :6381@16381 master - 0 0 1 connected 103
d fe80::1:6379@16379 master - 0 0 4 connected 104
e 10.0.0.5:6379@16379 slave a 0 0 3 connected
f 10.0.0.6:6379@16379 master - 0 0 5 connected
g :0@0 master,noaddr - 0 0 6 disconnected 105
`
	slots := [][]slotRange{{{0, 99}, {102, 102}}, {{100, 101}}, {{103, 103}}, {{104, 104}}}
	for _, test := range []struct {
		what  string
		names map[string]string
		want  []string // with ! if it is not what the node wants to be called
	}{
		{"nothing is known of names", nil, []string{"10.0.0.1:6379!", "10.0.0.2:6379!", "asked:6381!",
			"[fe80::1]:6379!"}},
		{"IPs are preferred", map[string]string{"a": "10.0.0.1", "b": "10.0.0.2", "c": "", "d": "fe80::1"},
			[]string{"10.0.0.1:6379", "10.0.0.2:6379", "asked:6381", "[fe80::1]:6379"}},
		{"names are preferred, and one has none", map[string]string{"a": "one.example", "b": "?", "c": "three",
			"d": "four"},
			[]string{"one.example:6379", "10.0.0.2:6379!", "three:6381", "four:6379"}},
		{"whatever leads to one leads to all", map[string]string{"a": "", "b": "", "c": "", "d": ""},
			[]string{"asked:6379", "asked:6379", "asked:6381", "asked:6379"}},
	} {
		view, err := readView(text, test.names, "asked")
		if err != nil || len(view) != 4 {
			t.Fatalf("%s: %+v and %v", test.what, view, err)
		}
		for i, epoch := range []int64{3, 2, 1, 4} {
			address, unnamed := strings.CutSuffix(test.want[i], "!")
			want := claimed{string("abcd"[i]), address, !unnamed, i == 0, epoch, slots[i]}
			if !reflect.DeepEqual(view[i], want) {
				t.Errorf("%s: %+v, want %+v", test.what, view[i], want)
			}
		}
	}
	for _, bad := range []string{"", "a 10.0.0.1:1@2 master - 0 0 1 connected\n",
		"a 10.0.0.1 master - 0 0 1 connected 1\n",
		"a 10.0.0.1:1@2 master - 0 0 x connected 1\n", "a 10.0.0.1:1@2 master - 0 0 1 connected 2-1\n",
		"a 10.0.0.1:1@2 master - 0 0 1 connected 0-16384\n"} {
		if view, err := readView(bad, nil, ""); !errors.Is(err, rediswire.ErrShape) {
			t.Errorf("%q gives %+v and %v", bad, view, err)
		}
	}
}

// newDeafCluster is a cluster whose nodes nobody can reach.
func newDeafCluster(t *testing.T) *cluster {
	t.Helper()
	s := newBase("redis at nowhere", settings{})
	c := s.newCluster(nil, func(address string) (rueidis.Client, bool, error) {
		client, err := rediswire.NewClient(
			s.frame.Life(),
			rediswire.DialTimeout,
			rueidis.ClientOption{InitAddress: []string{address}},
			func(context.Context, string, *tls.Config) (net.Conn, error) {
				return nil, errors.New("nobody is there")
			},
		)
		return client, true, err
	})
	s.topology = c
	t.Cleanup(func() { s.Close() })
	return c
}

// keepers says who keeps the first slots.
func (c *cluster) keepers(n int) string {
	var all []string
	for slot := range n {
		name := "-"
		if n := c.slots[slot].Load(); n != nil {
			name, _, _ = strings.Cut(n.address, ":")
		}
		all = append(all, name)
	}
	return strings.Join(all, "")
}

// Of two who claim a slot the later one is right, whoever says so. What is known is not changed back by nodes that were
// cut off, unless nobody knows better for long.
func TestBelieve(t *testing.T) {
	c := newDeafCluster(t)
	claim := func(who string, epoch int64, first, last int) claimed {
		return claimed{id: who, address: who + ":1", named: true, epoch: epoch, slots: []slotRange{{first, last}}}
	}
	for _, step := range []struct {
		all  []claimed
		want string
		err  error
	}{
		{[]claimed{claim("a", 1, 0, 1), claim("b", 2, 2, 3)}, "aabb-", nil},
		// One has not heard that b got a slot.
		{[]claimed{claim("a", 1, 0, 2), claim("b", 2, 3, 3), claim("b", 2, 2, 3)}, "aabb-", nil},
		// C has a's place.
		{[]claimed{claim("c", 3, 0, 1), claim("b", 2, 2, 3), claim("a", 1, 0, 1), claim("b", 2, 2, 3)}, "ccbb-", nil},
		{[]claimed{claim("a", 1, 0, 1), claim("b", 2, 2, 3)}, "ccbb-", errStaleView},
		{[]claimed{claim("c", 3, 0, 1), claim("b", 2, 2, 2)}, "ccb--", nil},
		{[]claimed{claim("c", 3, 0, 1), claim("d", 4, 2, 4)}, "ccddd", nil},
		{[]claimed{claim("a", 1, 0, 1), claim("d", 4, 2, 4)}, "ccddd", errStaleView}, // it has heard of d, and not of c
		{[]claimed{claim("c", 3, 0, 1), claim("b", 5, 2, 2)}, "ccb--", nil},
	} {
		if err := c.believe(step.all); !errors.Is(err, step.err) || c.keepers(5) != step.want {
			t.Errorf("after %v: %s and %v, want %s and %v", step.all, c.keepers(5), err, step.want, step.err)
		}
	}
	if len(c.nodes) != 2 {
		t.Errorf("%d nodes are kept, want those two that keep something", len(c.nodes))
	}
	c.mu.Lock()
	c.doubted = time.Now().Add(-staleAfter)
	c.mu.Unlock()
	if err := c.believe([]claimed{claim("z", 1, 0, 4)}); err != nil || c.keepers(5) != "zzzzz" {
		t.Errorf("a cluster that was made again: %s and %v", c.keepers(5), err)
	}
	c.store.Close()
	if err := c.believe([]claimed{claim("y", 9, 0, 4)}); !errors.Is(err, rediswire.ErrNotInUse) || len(c.nodes) != 1 {
		t.Errorf("after it was closed: %v, and %d nodes", err, len(c.nodes))
	}
}

// While there is a doubt, the cluster is asked on, though nobody calls.
func TestDoubtIsLookedInto(t *testing.T) {
	t.Parallel()
	s := newBase("redis at nowhere", settings{})
	asked := make(chan string, 1)
	c := s.newCluster([]string{"seed:1"}, func(address string) (rueidis.Client, bool, error) {
		select {
		case asked <- address:
		default:
		}
		return nil, false, errors.New("nobody is there")
	})
	s.topology = c
	defer s.Close()
	c.epoch = 2
	if err := c.believe([]claimed{{id: "a", address: "a:1", epoch: 1, slots: []slotRange{{0, 1}}}}); !errors.Is(err,
		errStaleView) {
		t.Fatal(err)
	}
	select {
	case address := <-asked:
		if address != "seed:1" {
			t.Errorf("%s was asked", address)
		}
	case <-time.After(15 * viewTimeout):
		t.Error("nobody was asked")
	}
}

// A master has one address, whatever others call it: what it says itself, what another knows, or what was said before.
func TestSettleNames(t *testing.T) {
	c := newDeafCluster(t)
	say := func(address string, how string) claimed {
		return claimed{
			id:      "a",
			address: address,
			named:   strings.Contains(how, "named"),
			own:     strings.Contains(how, "own"),
		}
	}
	for _, step := range []struct {
		all  []claimed
		want string
	}{
		{[]claimed{say("10.0.0.1:1", ""), say("10.0.0.1:1", "")}, "10.0.0.1:1"},
		{[]claimed{say("10.0.0.1:1", ""), say("a.example:1", "named")}, "a.example:1"},
		{[]claimed{say("10.0.0.1:1", "")}, "a.example:1"},
		{[]claimed{say("10.0.0.1:1", "own")}, "a.example:1"},
		{[]claimed{say("a.example:1", "named"), say("b.example:1", "own named"), say("a.example:1", "named")},
			"b.example:1"},
	} {
		said := fmt.Sprint(step.all)
		c.chooseAddresses(step.all)
		for _, its := range step.all {
			if its.address != step.want {
				t.Errorf("after %v it is called %s, want %s", said, its.address, step.want)
			}
		}
	}
}

// Where a node says that a slot is kept, it is asked for, by whatever name.
func TestMovedTo(t *testing.T) {
	c := newDeafCluster(t)
	if err := c.believe([]claimed{{id: "a", address: "a.example:1", named: true, epoch: 1, slots: []slotRange{{0,
		9}}}}); err != nil {
		t.Fatal(err)
	}
	for address, want := range map[string]string{
		"b.example:2": "b.example:2",
		":3":          "a.example:3", // on the same host
		"?:4":         "",            // it has no name
		"[::1]:5":     "[::1]:5",
		"a.example:1": "a.example:1",
		"nonsense":    "",
	} {
		c.mu.Lock()
		c.slots[0].Store(c.nodes["a.example:1"])
		c.mu.Unlock()
		followed := c.moved(t.Context(), 0, address)
		if got := c.slots[0].Load().address; followed != (want != "") || followed && got != want {
			t.Errorf("%q leads to %q (%t), want %q", address, got, followed, want)
		}
	}
}

// A refusal for good by one server is not final while another has not answered.
func TestSurvey(t *testing.T) {
	s := newBase("redis", settings{})
	defer s.Close()
	answers := map[string]error{"refuses": errUnknown, "refuses too": errUnknown, "answers": nil}
	ask := func(ctx context.Context, address string) (string, error) {
		err, known := answers[address]
		if !known {
			<-ctx.Done()
		}
		return address, err
	}
	for _, test := range []struct {
		asked []string
		said  int
		final bool
	}{
		{[]string{"refuses", "is silent"}, 0, false},
		{[]string{"refuses", "refuses too"}, 0, true},
		{[]string{"refuses", "answers"}, 1, true},
		{[]string{"answers", "is silent"}, 1, true}, // it is not waited for
	} {
		lost := newUnlocated("nobody says", "", explain)
		said := queryAll(
			t.Context(),
			s.frame,
			50*time.Millisecond,
			lost,
			test.asked,
			ask,
			func([]string) time.Duration {
				return time.Millisecond
			},
		)
		if len(said) != test.said || store.Final(s.frame.Fault(t.Context(), lost)) != test.final {
			t.Errorf("of %q %q have answered, otherwise %v", test.asked, said, lost)
		}
	}
}
