//go:build unix

package sqlite

import (
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/store"
)

// long is a ttl that no test waits for.
const long = 10 * time.Minute

func longClaim(name string) *store.Claim {
	c := newClaim(name)
	c.TTL = long
	return c
}

// soon is how long something may take that takes a fraction of a second on a machine that is not busy.
const soon = 10 * time.Second

// TestKilledHolderIsFoundOut: a process is killed while it holds a lock and another waits for it. The other has it at
// once, and not when the ttl has passed, and its token is greater.
func TestKilledHolderIsFoundOut(t *testing.T) {
	path := newPath(t)
	locks := openClient(t, path)
	killInTurn(t, locks, path, long, soon).bury()
	if _, err := locks.Mutex("x").TryLock(t.Context()); err != nil {
		t.Errorf("TryLock after the holder was killed: %v", err)
	}
}

// TestKilledWaiterIsPassedOver: the process that was next in line is dead when the holder releases.
func TestKilledWaiterIsPassedOver(t *testing.T) {
	path := newPath(t)
	locks := openClient(t, path, holdfast.WithTTL(long))
	lease := lock(t, locks, "x")
	next := startHolder(t, path, "x", long)
	waiters(t, locks, "x", 1)
	last := startHolder(t, path, "x", long)
	waiters(t, locks, "x", 2)
	next.bury()
	check(t, lease.Unlock(t.Context()))
	start := time.Now()
	last.token(t)
	if took := time.Since(start); took > soon {
		t.Errorf("it took %v", took)
	}
}

// TestDeadWaiterBlocksNobody: a dead process that wanted more than is free does not keep others from what is.
func TestDeadWaiterBlocksNobody(t *testing.T) {
	path := newPath(t)
	holder, dead, living := open(t, path), open(t, path), open(t, path)
	units := func(n int32) *store.Claim {
		c := longClaim("x")
		c.Demand = store.Demand{Kind: store.Semaphore, Units: n, Limit: 5}
		return c
	}
	join(t, holder, units(3), store.Held)
	join(t, dead, units(4), store.Waiting)
	die(t, dead)
	join(t, living, units(1), store.Held)
}

// die has an engine leave its claims as a process does that is killed.
func die(t *testing.T, e *engine) {
	t.Helper()
	if !e.hasClaims() {
		t.Fatal("it has no claims")
	}
	check(t, e.Close())
}

// TestClosedWithoutLeaving: Close releases what was held, since no caller can use it any more.
func TestClosedWithoutLeaving(t *testing.T) {
	path := newPath(t)
	a, b := open(t, path), open(t, path)
	for _, name := range []string{"x", "y"} {
		join(t, a, longClaim(name), store.Held)
	}
	die(t, a)
	join(t, b, newClaim("x"), store.Held)
	wantRows(t, path, 0, "holdfast_claims WHERE name = 'y'")
	if exists(a.notifier.path(a.notifier.name())) {
		t.Error("its socket is still there")
	}
}

// TestLivingIsNeverBuried, whatever happens to the sockets: its claims stand until their ttl has passed.
func TestLivingIsNeverBuried(t *testing.T) {
	for what, happens := range map[string]func(t *testing.T, folder string){
		"nothing": func(*testing.T, string) {},
		"removed": func(t *testing.T, folder string) { check(t, os.RemoveAll(folder)) },
		"renamed": func(t *testing.T, folder string) { check(t, os.Rename(folder, folder+".old")) },
		"copied": func(t *testing.T, folder string) {
			check(t, os.Rename(folder, folder+".old"))
			restore(t, folder+".old", folder)
		},
		"restored": func(t *testing.T, folder string) {
			names := listed(t, folder)
			check(t, os.RemoveAll(folder))
			for _, name := range names {
				inbox(t, folder, name).Close()
			}
		},
	} {
		t.Run(what, func(t *testing.T) {
			path := newPath(t)
			a, b := open(t, path), open(t, path)
			held := longClaim("x")
			join(t, a, held, store.Held)
			happens(t, path+"-wake")
			join(t, b, newClaim("x"), store.Waiting)
			check(t, b.Sweep(t.Context()))
			if _, err := b.Poll(t.Context(), []store.Claim{*held}); err != nil {
				t.Fatal(err)
			}
			keep(t, a, held, store.Held)
		})
	}
}

// restore makes dead sockets with the names of those in another folder.
func restore(t *testing.T, from, to string) {
	t.Helper()
	check(t, os.Mkdir(to, 0o700))
	for _, name := range listed(t, from) {
		inbox(t, to, name).Close()
	}
}

func listed(t *testing.T, folder string) []string {
	t.Helper()
	entries, err := os.ReadDir(folder)
	check(t, err)
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// TestEarlierIsNeverBuried: it is never known whether a client of an earlier version is dead.
func TestEarlierIsNeverBuried(t *testing.T) {
	path := newPath(t)
	a, b := open(t, path), open(t, path)
	held := longClaim("x")
	join(t, a, held, store.Held)
	dead := inbox(t, path+"-wake", "EARLIER")
	dead.Close()
	operate(t, path, "UPDATE holdfast_claims SET inbox = 'EARLIER'")
	join(t, b, newClaim("x"), store.Waiting)
	check(t, b.Sweep(t.Context()))
	wantState(t, path, held, store.Held)
}

// TestStoppedHolderIsNotDead: a process that stands still keeps its lock for its ttl.
func TestStoppedHolderIsNotDead(t *testing.T) {
	path := newPath(t)
	locks := openClient(t, path)
	h := startHolder(t, path, "x", long)
	h.token(t)
	stop(t, h)
	for range 3 {
		if _, err := locks.Mutex("x").TryLock(t.Context()); !errors.Is(err, holdfast.ErrLocked) {
			t.Errorf("got %v", err)
		}
		check(t, open(t, path).Close()) // which sweeps
	}
}

// TestInherited: a process that was started in between keeps the claims of a client that is gone, until it ends.
func TestInherited(t *testing.T) {
	path := newPath(t)
	a, b := open(t, path), open(t, path)
	held := longClaim("x")
	join(t, a, held, store.Held)
	end, err := newStore(a).Inherit()
	check(t, err)
	heir := startChild(t, "stay")
	end()
	startChild(t, "stay") // too late to keep anything
	die(t, a)
	join(t, b, newClaim("x"), store.Waiting)
	wantState(t, path, held, store.Held)
	heir.in.Close()
	check(t, heir.Wait())
	if a, err := b.Poll(t.Context(), []store.Claim{*held}); err != nil || a[0].State != store.Gone {
		t.Errorf("it stands at %v, %v", a, err)
	}
}

// TestOpenSweepsSockets of processes that were killed, wherever they are in a large folder.
func TestOpenSweepsSockets(t *testing.T) {
	path := newPath(t)
	open(t, path)
	folder := path + "-wake"
	for i := range mostDialled / 2 {
		inbox(t, folder, fmt.Sprintf("LIVING%d", i))
	}
	for i := range mostDialled / 2 {
		inbox(t, folder, fmt.Sprintf("DEAD%d", i)).Close()
	}
	h := startHolder(t, path, "x", long)
	h.token(t)
	h.bury()
	eventually(t, "all dead are swept", func() bool {
		check(t, open(t, path).Close())
		return len(listed(t, folder)) == mostDialled/2
	})
	wantRows(t, path, 0, "holdfast_claims")
}

// TestManyDeadAreFoundInOneLook: many processes that waited were killed at once. They are not found a few at a time,
// by a transaction that goes through the line again for each few.
func TestManyDeadAreFoundInOneLook(t *testing.T) {
	path := newPath(t)
	e := open(t, path)
	join(t, e, longClaim("x"), store.Held)
	const many = 100
	clients := make([]notifier, many)
	for i := range clients {
		client := &clients[i]
		c := longClaim("x")
		join(t, e, c, store.Waiting)
		client.folder = path + "-wake"
		if !client.listen(func(store.ID, store.Status) {}) {
			t.Fatal("no socket")
		}
		operate(t, path, "UPDATE holdfast_claims SET inbox = ? WHERE ticket = ?", client.name(), int64(c.Ticket))
	}
	for i := range clients {
		clients[i].close(func() bool { return true })
	}
	dead, err := write(t.Context(), e, func(tx *transaction) ([]string, error) {
		dead, _, err := tx.blockers("x")
		return dead, err
	})
	if err != nil || len(dead) != many {
		t.Errorf("found %d of %d, %v", len(dead), many, err)
	}
	join(t, e, longClaim("x"), store.Waiting)
	wantRows(t, path, 2, "holdfast_claims")
	if left := listed(t, path+"-wake"); len(left) != 1 {
		t.Errorf("%d sockets are left", len(left))
	}
}

// TestBlockersAreTestedOnce: a client that is ahead of many claims is not asked for each whether it lives.
func TestBlockersAreTestedOnce(t *testing.T) {
	path := newPath(t)
	a, b := open(t, path), open(t, path)
	var waiting []store.Claim
	for i := range 20 {
		name := fmt.Sprintf("x%d", i)
		join(t, a, newClaim(name), store.Held)
		c := joined(t, b, name, store.Waiting)
		waiting = append(waiting, *c)
	}
	_, err := b.Poll(t.Context(), waiting)
	check(t, err)
	if len(b.blockers) != 1 {
		t.Errorf("%d blockers, want one", len(b.blockers))
	}
}
