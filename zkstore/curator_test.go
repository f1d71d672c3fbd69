package zkstore_test

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/servers"
	"github.com/holdfast-go/holdfast/internal/testkit"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/zkstore"
)

// Stores with Curator's layout beside nodes that others have made. Package bench has the real Curator.

// others is a client of ZooKeeper's that is not Holdfast's.
type others struct {
	*zk.Conn
	t *testing.T
}

// openCurator starts a server, and opens a store with one of Curator's layouts and another client.
func openCurator(t *testing.T, layout string) (*zkstore.Store, others) {
	t.Helper()
	t.Parallel()
	server := servers.ZooKeeper(t, servers.Tick(tick))
	s, err := zkstore.Open(t.Context(), []string{server.Addr()}, zkstore.WithLayout(layout),
		zkstore.WithTTL(sessionTTL), zkstore.WithTick(tick))
	testkit.Must(t, err)
	t.Cleanup(func() { s.Close() })
	return s, connectOther(t, server.Addr())
}

func connectOther(t *testing.T, address string) others {
	t.Helper()
	conn, events, err := zk.Connect([]string{address}, 10*time.Second, zk.WithLogger(quiet{}))
	testkit.Must(t, err)
	t.Cleanup(func() {
		conn.Close()
		for range events { // until it has ended
		}
	})
	return others{conn, t}
}

// make makes a node, and returns its path.
func (o others) make(path, data string, flags int32) string {
	o.t.Helper()
	made, err := o.Create(path, []byte(data), flags, zk.WorldACL(zk.PermAll))
	testkit.Must(o.t, err)
	return made
}

func (o others) delete(path string) {
	o.t.Helper()
	testkit.Must(o.t, o.Delete(path, -1))
}

const claimFlags = zk.FlagEphemeral | zk.FlagSequence

func reads(name string) store.Claim {
	c := testkit.Claim(name, sessionTTL)
	c.Units = 1
	return c
}

// The node that a lock is on may have data of others, which stays. Nobody who watches it hears of the lock.
func TestDataOfTheLockedNode(t *testing.T) {
	s, other := openCurator(t, "curator")
	other.make("/service", "", 0)
	other.make("/service/config", "all of it", 0)
	c := testkit.Held(t, s, testkit.Claim("service/config", sessionTTL))
	next := testkit.Waiting(t, s, testkit.Claim("service/config", sessionTTL))
	testkit.Leave(t, s, c)
	testkit.AwaitHeld(t, s, next)
	if next.Ticket <= c.Ticket {
		t.Errorf("the ticket %d follows on %d", next.Ticket, c.Ticket)
	}
	_, err := other.Sync("/service/config")
	testkit.Must(t, err)
	data, stat, err := other.Get("/service/config")
	if err != nil || string(data) != "all of it" || stat.Version != 0 {
		t.Errorf("the node says %q, in version %d, %v", data, stat.Version, err)
	}
	node, _, err := other.Children("/service/config")
	if err != nil || len(node) != 1 {
		t.Fatalf("the line is %q, %v", node, err)
	}
	if _, stat, err = other.Exists("/service/config/" + node[0]); err != nil || uint64(stat.Czxid) != next.Ticket {
		t.Errorf("the ticket is %d, and the node's czxid %d, %v", next.Ticket, stat.Czxid, err)
	}
}

// A writer of Curator's becomes a reader while one of ours waits: it makes a reader's node with its own number, and
// then deletes the writer's. Our writer still has to wait, and our reader not.
func TestCuratorDowngrade(t *testing.T) {
	s, other := openCurator(t, "curator-rw")
	other.make("/lock", "", 0)
	writer := other.make("/lock/_c_5c1a8a4c-1a1f-4d3c-9d8e-000000000001-__WRIT__", "", claimFlags)
	waiter := testkit.Waiting(t, s, testkit.Claim("lock", sessionTTL))
	number := writer[strings.LastIndex(writer, "_")+1:]
	reader := other.make("/lock/_c_5c1a8a4c-1a1f-4d3c-9d8e-000000000002-__READ__"+number, "", zk.FlagEphemeral)
	told := testkit.Listen(s)
	other.delete(writer)
	if testkit.Soon(sessionTTL/2,
		func() bool { return len(told) > 0 || testkit.Ask(t, s, waiter).State == store.Held }) {
		t.Fatal("a writer holds beside a reader")
	}
	other.delete(reader)
	testkit.AwaitTold(t, told, waiter.ID, "the writer is granted")
	testkit.Keep(t, s, waiter, store.Held)
}

// Readers of ours and of others hold together, and exclude writers, in the order of the queue.
func TestReadersAmongOthers(t *testing.T) {
	s, other := openCurator(t, "curator-rw")
	first := testkit.Held(t, s, reads("path/to/lock"))
	theirs := other.make("/path/to/lock/_c_5c1a8a4c-1a1f-4d3c-9d8e-000000000001-__READ__", "10.0.0.1", claimFlags)
	second := testkit.Held(t, s, reads("path/to/lock"))
	writer := testkit.Waiting(t, s, testkit.Claim("path/to/lock", sessionTTL))
	behind := other.make("/path/to/lock/_c_5c1a8a4c-1a1f-4d3c-9d8e-000000000002-__READ__", "10.0.0.1", claimFlags)
	late := testkit.Waiting(t, s, reads("path/to/lock"))
	for _, c := range []store.Claim{first, second} {
		testkit.Leave(t, s, c)
	}
	testkit.Keep(t, s, writer, store.Waiting)
	other.delete(theirs)
	testkit.AwaitHeld(t, s, writer)
	testkit.Keep(t, s, late, store.Waiting)
	testkit.Leave(t, s, writer)
	testkit.AwaitHeld(t, s, late)
	other.delete(behind)
	testkit.Leave(t, s, late)
}

// Line and Break know the nodes of others, whatever their data is, and Names the paths that they lock.
func TestOthersInLine(t *testing.T) {
	s, other := openCurator(t, "curator")
	for _, path := range []string{"/jobs", "/jobs/lock-7", "/jobs/-", "/free", "/50%", "/closed"} {
		other.make(path, "data", 0)
	}
	_, err := other.SetACL("/closed", zk.DigestACL(zk.PermAll, "user", "password"), -1)
	testkit.Must(t, err)
	theirs := other.make("/jobs/lock-", "1 {", claimFlags)
	other.make("/jobs/lock-7/lock-", "", claimFlags)
	other.make("/50%/lock-", "", claimFlags)
	other.make("/jobs/_c_5c1a8a4c-1a1f-4d3c-9d8e-000000000001-__WRIT__", "", claimFlags) // of another kind of lock
	waiter := testkit.Waiting(t, s, testkit.Claim("jobs", sessionTTL))
	testkit.Held(t, s, testkit.Claim("jobs/deep/below", sessionTTL))

	var names []string
	for name, err := range s.Names(t.Context(), "") {
		testkit.Must(t, err)
		names = append(names, name)
	}
	if want := []string{"jobs", "jobs/deep/below", "jobs/lock-7"}; !slices.Equal(slices.Sorted(slices.Values(names)),
		want) {
		t.Errorf("the names are %q, want %q", names, want)
	}
	line, err := s.Queue(t.Context(), "jobs")
	if err != nil || len(line.Entries) != 2 {
		t.Fatalf("the line is %+v, %v", line, err)
	}
	_, stat, err := other.Exists(theirs)
	testkit.Must(t, err)
	first, second := line.Entries[0], line.Entries[1]
	if first.State != store.Held || first.Ticket != uint64(stat.Czxid) || first.Owner == nil ||
		!first.Since.Equal(time.UnixMilli(stat.Ctime)) {
		t.Errorf("the first is %+v", first)
	}
	if second.State != store.Waiting || second.ID != waiter.ID || second.Owner.Label != "test" {
		t.Errorf("the second is %+v", second)
	}
	if err := s.Break(t.Context(), "jobs", waiter.Ticket+1); !errors.Is(err, store.ErrNotHeld) {
		t.Errorf("Break of what is not there: %v", err)
	}
	testkit.Must(t, s.Break(t.Context(), "jobs", first.Ticket))
	testkit.AwaitHeld(t, s, waiter)
	if there, _, err := other.Exists(theirs); there || err != nil {
		t.Errorf("the node of the other is there: %v, %v", there, err)
	}
	if left, _, err := other.Children("/jobs"); err != nil || len(left) != 5 {
		t.Errorf("beside the claim there is %q, %v", left, err)
	}
}

// A request to revoke, which Curator writes into the holder's node, is not heard and harms nothing.
func TestRevoke(t *testing.T) {
	s, other := openCurator(t, "curator")
	c := testkit.Held(t, s, testkit.Claim("lock", sessionTTL))
	nodes, _, err := other.Children("/lock")
	testkit.Must(t, err)
	_, err = other.Set(path.Join("/lock", nodes[0]), []byte("__REVOKE__"), -1)
	testkit.Must(t, err)
	for range 2 {
		testkit.Keep(t, s, c, store.Held)
	}
	testkit.Leave(t, s, c)
	testkit.CheckLength(t, s, "lock", 0)
}

// The library's own lock and a store with Curator's layout exclude each other, both ways.
func TestLockOfTheLibrary(t *testing.T) {
	s, other := openCurator(t, "curator")
	lock := zk.NewLock(other.Conn, "/path/to/lock", zk.WorldACL(zk.PermAll))
	testkit.Must(t, lock.Lock())
	waiter := testkit.Waiting(t, s, testkit.Claim("path/to/lock", sessionTTL))
	again := make(chan error, 1)
	testkit.Must(t, lock.Unlock())
	go func() { again <- lock.Lock() }()
	testkit.AwaitHeld(t, s, waiter)
	testkit.Await(t, "the other waits", func() bool { return testkit.Length(t, s, "path/to/lock") == 2 })
	select {
	case err := <-again:
		t.Fatalf("both hold: %v", err)
	case <-time.After(sessionTTL / 4):
	}
	testkit.Leave(t, s, waiter)
	testkit.Must(t, <-again)
	try := testkit.Claim("path/to/lock", sessionTTL)
	try.Try = true
	testkit.Join(t, s, &try, store.Gone)
	testkit.Must(t, lock.Unlock())
}

// What Curator's layouts don't have is refused in words that say which layout has it.
func TestWhatCuratorLacks(t *testing.T) {
	t.Parallel()
	server := servers.ZooKeeper(t, servers.Tick(tick))
	for layout, lacks := range map[string][]string{
		"curator":    {"readers", "semaphores", "downgrades"},
		"curator-rw": {"semaphores", "downgrades"},
	} {
		url := fmt.Sprintf("zk://%s?layout=%s&tick=%v&ttl=%v", server.Addr(), layout, tick, sessionTTL)
		locks, err := holdfast.Open(t.Context(), url)
		testkit.Must(t, err)
		t.Cleanup(func() { locks.Close() })
		writer := testkit.Lock(t, locks, "lock")
		_, downgrade := writer.Downgrade(t.Context())
		testkit.Unlock(t, writer)
		_, semaphore := locks.Semaphore("many", 3).Acquire(t.Context(), 1)
		reader, read := locks.RWMutex("lock").RLock(t.Context())
		if read == nil {
			testkit.Unlock(t, reader)
		}
		for what, err := range map[string]error{"readers": read, "semaphores": semaphore, "downgrades": downgrade} {
			if !slices.Contains(lacks, what) {
				testkit.Check(t, err)
			} else if !errors.Is(err, holdfast.ErrUnsupported) || !strings.Contains(err.Error(), "own layout has all") {
				t.Errorf("%s with layout=%s: %v", what, layout, err)
			}
		}
	}
}

// An operator deletes the node that is written for the number of a transaction. The next Join makes it again.
func TestNumberDeleted(t *testing.T) {
	s, other := openCurator(t, "curator")
	testkit.CheckWorks(t, s)
	other.delete("/holdfast/number")
	testkit.CheckWorks(t, s)
}

// Nothing can be under a node that goes with its session: a lock there is refused for good, not waited for.
func TestPathUnderEphemeralNode(t *testing.T) {
	s, other := openCurator(t, "curator")
	other.make("/worker", "", zk.FlagEphemeral)
	for _, name := range []string{"worker", "worker/lock", "worker/a/b"} {
		_, err := s.Join(t.Context(), testkit.Claim(name, sessionTTL))
		checkFault(t, err, true, `nothing under "/worker`, "ephemeral")
	}
}
