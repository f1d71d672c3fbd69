package stores_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/servers"
	"github.com/holdfast-go/holdfast/internal/testkit"
)

// detaching has the URLs of stores and modes, and which of them can detach leases, as the documentation says.
var detaching = map[string]struct {
	url  func(t *testing.T) string
	able bool
}{
	"memory":   {urls["memory"], true},
	"sqlite":   {urls["sqlite"], true},
	"postgres": {urls["postgres"], true},
	"mysql":    {urls["mysql"], true},
	"redis":    {urls["redis"], true},
	"etcd":     {urls["etcd"], true},
	"consul":   {urls["consul"], true},
	"zk":       {urls["zk"], false},
	"redlock":  {urls["redlock"], false},
	"redis, plain mode": {
		func(t *testing.T) string { return "redis://" + servers.Redis(t).Addr() + "?mode=plain" }, true,
	},
	"consul, plain mode": {
		func(t *testing.T) string { return "consul://" + servers.Consul(t).Addr() + "?mode=plain" }, false,
	},
	"zk, Curator's layout": {
		func(t *testing.T) string { return zooKeeperURL(servers.ZooKeeper(t), "") + "&layout=curator" }, false,
	},
}

// TestDetachOnEveryStore uses Detach, Attach, Extend, Release, Once and WithAtLeast on each store. Where leases cannot
// be detached, each is an ErrUnsupported that names the store, and a lease that is held stays held.
func TestDetachOnEveryStore(t *testing.T) {
	t.Parallel()
	for name, test := range detaching {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			locks, err := holdfast.Open(t.Context(), test.url(t))
			testkit.Must(t, err)
			t.Cleanup(func() { testkit.Check(t, locks.Close()) })
			if able := locks.Abilities().Detach; able != test.able {
				t.Fatalf("Abilities.Detach is %v", able)
			}
			if test.able {
				checkDetach(t, locks)
			} else {
				checkNoDetach(t, locks)
			}
		})
	}
}

// spell is how long leases are detached here: every store accepts it.
const spell = time.Minute

// once calls Once for the same occasion each time.
func once(t *testing.T, locks *holdfast.Client) (called bool, err error) {
	t.Helper()
	return locks.Once(t.Context(), "job", "today", spell, func(context.Context) error { return nil })
}

func checkDetach(t *testing.T, locks *holdfast.Client) {
	t.Helper()
	lease := testkit.Lock(t, locks, "x")
	token := lease.Token()
	x, err := lease.Detach(t.Context(), spell)
	testkit.Must(t, err)
	_, err = locks.Extend(t.Context(), x, spell)
	testkit.Must(t, err)
	lease, err = locks.Attach(t.Context(), x)
	testkit.Must(t, err)
	if lease.Token() != token {
		t.Errorf("the token was %d, and is %d", token, lease.Token())
	}
	x, err = lease.Detach(t.Context(), spell)
	testkit.Must(t, err)
	testkit.Check(t, locks.Release(t.Context(), x))
	testkit.Unlock(t, testkit.Lock(t, locks, "x", holdfast.WithAtLeast(spell)))
	if _, err := locks.Mutex("x").TryLock(t.Context()); !errors.Is(err, holdfast.ErrLocked) {
		t.Errorf("a lock with WithAtLeast that was just released: %v", err)
	}
	for _, want := range []bool{true, false} {
		if called, err := once(t, locks); called != want || err != nil {
			t.Errorf("Once: %v and %v, want %v", called, err, want)
		}
	}
}

func checkNoDetach(t *testing.T, locks *holdfast.Client) {
	t.Helper()
	memory, err := holdfast.Open(t.Context(), "memory:")
	testkit.Must(t, err)
	defer memory.Close()
	x, err := testkit.Lock(t, memory, "x").Detach(t.Context(), spell)
	testkit.Must(t, err)
	lease := testkit.Lock(t, locks, "x")
	failures := map[string]error{"Release": locks.Release(t.Context(), x)}
	_, failures["Detach"] = lease.Detach(t.Context(), spell)
	_, failures["Attach"] = locks.Attach(t.Context(), x)
	_, failures["Extend"] = locks.Extend(t.Context(), x, spell)
	_, failures["Once"] = once(t, locks)
	_, failures["WithAtLeast"] = locks.Mutex("y", holdfast.WithAtLeast(spell)).TryLock(t.Context())
	scheme, _, _ := strings.Cut(locks.Abilities().Store, " ")
	for call, err := range failures {
		if !errors.Is(err, holdfast.ErrUnsupported) || !strings.Contains(err.Error(), scheme) {
			t.Errorf("%s: %v, want that %s does not support it", call, err, scheme)
		}
	}
	testkit.Check(t, lease.Err())
	testkit.Unlock(t, lease)
}
