package redisstore_test

import (
	"context"
	"fmt"
	"math/big"
	"strconv"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/servers"
	"github.com/holdfast-go/holdfast/internal/testkit"
	"github.com/holdfast-go/holdfast/store"
)

// A stranger is a user of the server who may subscribe and publish, and nothing else.
type stranger struct {
	t            testing.TB
	hears, tells *servers.Conn
}

func newStranger(t testing.TB, server *servers.RedisServer) *stranger {
	t.Helper()
	do(t, server, "ACL", "SETUSER", "stranger", "reset", "on", ">secret", "resetkeys", "allchannels",
		"-@all", "+subscribe", "+psubscribe", "+publish")
	dial := func() *servers.Conn {
		c, err := server.Dial()
		testkit.Must(t, err)
		t.Cleanup(func() { c.Close() })
		_, err = c.Do("AUTH", "stranger", "secret")
		testkit.Must(t, err)
		return c
	}
	s := &stranger{t, dial(), dial()}
	_, err := s.hears.Do("PSUBSCRIBE", "*")
	testkit.Must(t, err)
	return s
}

// overhear returns the next push: its channel, and the ID and ticket that it names.
func (s *stranger) overhear() (channel string, id store.ID, ticket uint64) {
	s.t.Helper()
	heard, err := s.hears.Receive()
	testkit.Must(s.t, err)
	parts, ok := heard.([]any)
	if !ok || len(parts) != 4 {
		s.t.Fatalf("heard %v", heard)
	}
	words := strings.Fields(fmt.Sprint(parts[3]))
	if len(words) != 3 || words[0] != "h" || id.UnmarshalText([]byte(words[1])) != nil {
		s.t.Fatalf("heard %q", parts[3])
	}
	if ticket, err = strconv.ParseUint(words[2], 10, 64); err != nil {
		s.t.Fatal(err)
	}
	return fmt.Sprint(parts[2]), id, ticket
}

func (s *stranger) publish(channel, message string) {
	s.t.Helper()
	heard, err := s.tells.Do("PUBLISH", channel, message)
	if err != nil || heard != int64(2) { // the client and the stranger
		s.t.Fatalf("PUBLISH: %v heard it, %v", heard, err)
	}
	if _, err := s.hears.Receive(); err != nil { // its own
		s.t.Fatal(err)
	}
}

// A robbery is one client that holds locks, another that waits for them, and a stranger.
type robbery struct {
	t              testing.TB
	holder, waiter *holdfast.Client
	held           map[string]*holdfast.Lease
	got            map[string]chan *holdfast.Lease // what the waiter gets
	*stranger
}

// newRobbery lets the waiter wait for each of these names, which the holder holds.
func newRobbery(t *testing.T, names ...string) *robbery {
	t.Helper()
	server, s := newServer(t, "")
	r := &robbery{
		t: t, holder: holdfast.New(s), waiter: holdfast.New(openAt(t, "redis://"+server.Addr())),
		held: map[string]*holdfast.Lease{}, got: map[string]chan *holdfast.Lease{},
	}
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(func() {
		cancel()
		r.waiter.Close()
		r.holder.Close()
	})
	r.stranger = newStranger(t, server)
	for _, name := range names {
		r.hold(name)
		r.want(ctx, name)
	}
	return r
}

func (r *robbery) hold(name string) {
	r.t.Helper()
	l, err := r.holder.Mutex(name).Lock(r.t.Context())
	testkit.Must(r.t, err)
	r.held[name] = l
}

// want has the waiter wait for a name.
func (r *robbery) want(ctx context.Context, name string) {
	r.t.Helper()
	got := make(chan *holdfast.Lease, 1)
	r.got[name] = got
	go func() {
		if l, err := r.waiter.Mutex(name).Lock(ctx); err == nil {
			got <- l
		}
	}()
	testkit.Await(r.t, "the waiter waits for "+name, func() bool {
		line, err := r.holder.Inspect(r.t.Context(), name)
		return err == nil && len(line.Waiters()) == 1
	})
}

// release gives a lock back, which the waiter then gets. What was published before has been heard then.
func (r *robbery) release(name string) *holdfast.Lease {
	r.t.Helper()
	testkit.Must(r.t, r.held[name].Unlock(r.t.Context()))
	select {
	case l := <-r.got[name]:
		return l
	case <-r.t.Context().Done():
	}
	r.t.Fatal("the waiter did not get " + name)
	return nil
}

// forgeries are grants for all claims whose IDs and tickets are near those that were overheard.
func forgeries(id store.ID, ticket uint64) string {
	const near = 8
	var lines []string
	for i := int64(-near); i <= near; i++ {
		var guess store.ID
		n := new(big.Int).Add(new(big.Int).SetBytes(id[:]), big.NewInt(i))
		n.Mod(n, new(big.Int).Lsh(big.NewInt(1), 128)).FillBytes(guess[:])
		for t := ticket - near; t <= ticket+near && i != 0; t++ {
			lines = append(lines, fmt.Sprintf("h %s %d", guess, t))
		}
	}
	return strings.Join(lines, "\n")
}

// A stranger overhears the grant of one claim, and publishes grants for those that the same client made before and
// after it. Nobody believes them.
func TestForgedGrantIsNotBelieved(t *testing.T) {
	r := newRobbery(t, "heard", "wanted", "last")
	r.release("heard")
	channel, id, ticket := r.overhear()
	r.publish(channel, forgeries(id, ticket))
	r.release("last")
	select {
	case forged := <-r.got["wanted"]:
		t.Fatalf("two hold it: the holder with token %v (%v), and by a forged push another with %v (%v)",
			r.held["wanted"].Token(), r.held["wanted"].Err(), forged.Token(), forged.Err())
	default:
	}
	testkit.Check(t, r.held["wanted"].Err())
}

// A stranger overhears a grant, and publishes that the claim is gone. Its lease stays.
func TestForgedLossCostsNoLease(t *testing.T) {
	r := newRobbery(t, "heard", "last")
	l := r.release("heard")
	channel, id, ticket := r.overhear()
	r.publish(channel, fmt.Sprintf("g %s %d", id, ticket))
	r.release("last")
	if err := l.Err(); err != nil {
		t.Fatalf("a forged push ended the lease: %v", err)
	}
	testkit.Check(t, l.Unlock(t.Context()))
}

// A stranger overhears a grant, and repeats it when its claim has left and its client waits for the lock again.
func TestReplayedGrantIsNotBelieved(t *testing.T) {
	r := newRobbery(t, "heard", "last")
	l := r.release("heard")
	channel, id, ticket := r.overhear()
	testkit.Must(t, l.Unlock(t.Context()))
	r.hold("heard")
	r.want(t.Context(), "heard")
	r.publish(channel, fmt.Sprintf("h %s %d", id, ticket))
	r.release("last")
	select {
	case forged := <-r.got["heard"]:
		t.Fatalf("a grant of before was believed: token %v", forged.Token())
	default:
	}
}

// Until it is granted, the ID of a claim is in nothing that a stranger hears, in any mode: not in what its client does,
// nor in what is told when others come, are renewed, leave or are broken.
func TestWaitingIDIsNotPublished(t *testing.T) {
	for _, query := range []string{"", "?mode=plain"} {
		t.Run(query, func(t *testing.T) {
			server := servers.Redis(t)
			do(t, server, "CONFIG", "SET", "notify-keyspace-events", "KEA") // a stranger hears these too
			url := "redis://" + server.Addr() + query
			a, b := testkit.Open(t, url), testkit.Open(t, url)
			stranger := newStranger(t, server)
			holder, waiter, next := claim("x"), claim("x"), claim("x")
			waiter.ID[0] = 0xfe
			testkit.Join(t, a, &holder, store.Held)
			testkit.Join(t, b, &waiter, store.Waiting)
			testkit.Join(t, a, &next, store.Waiting)
			testkit.Ask(t, b, waiter)
			testkit.Ask(t, a, holder)
			testkit.Leave(t, a, next)
			testkit.Must(t, a.Break(t.Context(), "x", holder.Ticket))
			do(t, server, "PUBLISH", "the end", "")
			heard := 0
			for ; ; heard++ {
				message, err := stranger.hears.Receive()
				testkit.Must(t, err)
				text := fmt.Sprint(message)
				if strings.Contains(text, "the end") {
					break
				}
				// The grant itself is the last message about it, after the holder was broken.
				if strings.Contains(text, waiter.ID.String()) && !strings.Contains(text, "h "+waiter.ID.String()) {
					t.Errorf("a stranger hears of a claim that waits: %s", text)
				}
			}
			if heard == 0 {
				t.Error("nothing was heard at all")
			}
		})
	}
}

// A user of the server who was given other channels neither hears nor tells anything of locks.
func TestStrangerWithoutChannels(t *testing.T) {
	server, s := newServer(t, "")
	newStranger(t, server)
	do(t, server, "ACL", "SETUSER", "stranger", "resetchannels", "&shop:news:*")
	c, err := server.Dial()
	testkit.Must(t, err)
	defer c.Close()
	_, err = c.Do("AUTH", "stranger", "secret")
	testkit.Must(t, err)
	_, err = c.Do("PUBLISH", "shop:news:1", "x")
	testkit.Must(t, err)
	for _, command := range [][]string{
		{"PUBLISH", s.Topic(), "x"}, {"SUBSCRIBE", s.Topic()}, {"PSUBSCRIBE", "*"}, {"PSUBSCRIBE", "holdfast:*"},
	} {
		if _, err := c.Do(command...); err == nil || !strings.Contains(err.Error(), "NOPERM") {
			t.Errorf("%v: %v", command, err)
		}
	}
}
