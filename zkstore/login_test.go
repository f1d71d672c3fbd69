package zkstore_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/servers"
	"github.com/holdfast-go/holdfast/internal/testkit"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/zkstore"
)

// setACL has all nodes under a path belong to another user, as `setAcl -R` does.
func setACL(t *testing.T, conn *zk.Conn, path string, acl []zk.ACL) {
	t.Helper()
	for _, child := range childrenOf(t, conn, path) {
		setACL(t, conn, child, acl)
	}
	if _, err := conn.SetACL(path, acl, -1); err != nil && !errors.Is(err, zk.ErrNoNode) {
		t.Fatal(err)
	}
}

// The password of a user changes under living clients, as the package's documentation describes it: the file, or what a
// function returns, and then the ACLs of all nodes. The clients keep what they hold, and acquire more. A client that
// knows only the new password waits behind them, and is granted the lock.
func TestPasswordChanges(t *testing.T) {
	t.Parallel()
	server := servers.ZooKeeper(t)
	file := filepath.Join(t.TempDir(), "password")
	var password atomic.Value
	change := func(now string) {
		testkit.Must(t, os.WriteFile(file, []byte(now+"\n"), 0o600))
		password.Store(now)
	}
	change("secret")
	get := func(context.Context) (user, now string, err error) { return "me", password.Load().(string), nil }
	url := "zk://me@" + server.Addr() + shortTicks + "&password-file=" + file
	locks := holdfast.New(openURL(t, url))
	defer locks.Close()
	byCall, err := zkstore.Open(t.Context(), []string{server.Addr()}, zkstore.WithCredentials(get),
		zkstore.WithTick(200*time.Millisecond), zkstore.WithTTL(longTTL))
	testkit.Must(t, err)
	t.Cleanup(func() { byCall.Close() })
	constant, err := zkstore.Open(t.Context(), []string{server.Addr()}, zkstore.WithLogin("me", "secret"),
		zkstore.WithTick(200*time.Millisecond), zkstore.WithTTL(longTTL))
	testkit.Must(t, err)
	t.Cleanup(func() { constant.Close() })
	lease := testkit.Lock(t, locks, "held")
	claim := testkit.Held(t, byCall, claimOf("kept"))

	change("another secret")
	owner := dial(t, server.Addr(), "me:secret")
	testkit.Must(t, owner.AddAuth("digest", []byte("me:another secret")))
	setACL(t, owner, "/holdfast", zk.DigestACL(zk.PermAll, "me", "another secret"))
	testkit.Keep(t, byCall, claim, store.Held)
	testkit.CheckWorks(t, byCall)
	testkit.Unlock(t, testkit.Lock(t, locks, "more"))

	next := openURL(t, url)
	told := testkit.Listen(next)
	waiter := testkit.Waiting(t, next, claimOf("held"))
	if err := lease.Err(); err != nil {
		t.Errorf("the lease of before: %v", err)
	}
	testkit.Unlock(t, lease)
	testkit.AwaitTold(t, told, waiter.ID, "the release")
	testkit.Keep(t, next, waiter, store.Held)
	testkit.Leave(t, byCall, claim)
	_, err = constant.Join(t.Context(), claimOf("held"))
	checkFault(t, err, true, "no permission for")
}

// patientTicks are parameters for a session that a busy machine keeps: the test waits for none to end.
const patientTicks = "?tick=2s&ttl=10s"

// A login for which there is no password fails, and says why. The next one may succeed.
func TestNoCredentials(t *testing.T) {
	t.Parallel()
	server := servers.ZooKeeper(t)
	file := filepath.Join(t.TempDir(), testkit.Secret)
	url := "zk://me@" + server.Addr() + patientTicks + "&password-file=" + file
	checkFault(t, testkit.OpenError(t, url), false, "cannot be read")
	testkit.Must(t, os.WriteFile(file, []byte("\n"), 0o600))
	checkFault(t, testkit.OpenError(t, url), false, "is empty")
	testkit.Must(t, os.WriteFile(file, []byte("hidden"), 0o600))
	testkit.CheckWorks(t, openURL(t, url))
	failing := func(context.Context) (string, string, error) {
		return "me", testkit.Secret, errors.New("the vault is closed, secret")
	}
	for says, get := range map[string]zkstore.Credentials{
		"the vault is closed": failing,
		"is empty":            func(context.Context) (string, string, error) { return "", testkit.Secret, nil },
		"has a colon":         func(context.Context) (string, string, error) { return "m:e", testkit.Secret, nil },
	} {
		_, err := zkstore.Open(t.Context(), []string{server.Addr()}, zkstore.WithCredentials(get))
		checkFault(t, err, false, says)
	}
}
