package etcdstore_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"

	"go.etcd.io/etcd/client/v3"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/etcdstore"
	"github.com/holdfast-go/holdfast/internal/servers"
	"github.com/holdfast-go/holdfast/internal/testkit"
	"github.com/holdfast-go/holdfast/store"
)

// The password of a user changes under living clients, which read it from a file or call a function for it. They keep
// what they hold, acquire more, also over new connections, and their watches go on. A client that was handed in has the
// old password, and its store reports that.
func TestPasswordChanges(t *testing.T) {
	t.Parallel()
	server := servers.Etcd(t, servers.Password("open sesame"))
	root := server.Client(t)
	key, end := documentedRange(t, "")
	addUser(t, root, "me", key, end, clientv3.PermReadWrite)
	file := filepath.Join(t.TempDir(), "password")
	var password atomic.Value
	change := func(now string) {
		testkit.Must(t, os.WriteFile(file, []byte(now+"\n"), 0o600))
		password.Store(now)
	}
	change("secret")
	var calls atomic.Int32
	get := func(context.Context) (user, now string, err error) {
		calls.Add(1)
		return "me", password.Load().(string), nil
	}
	p := testkit.Proxy(t, server.Addr())
	byFile := openAt(t, "etcd://me@"+p.Addr()+"?ttl=5s&password-file="+file)
	byCall, err := etcdstore.Open(t.Context(), []string{p.Addr()}, etcdstore.WithCredentials(get))
	testkit.Must(t, err)
	t.Cleanup(func() { byCall.Close() })
	old, err := clientv3.New(clientv3.Config{Endpoints: []string{p.Addr()}, Username: "me", Password: "secret"})
	testkit.Must(t, err)
	t.Cleanup(func() { old.Close() })
	handedIn, err := etcdstore.New(t.Context(), old)
	testkit.Must(t, err)
	t.Cleanup(func() { handedIn.Close() })

	locks := holdfast.New(byFile)
	defer locks.Close()
	lease := testkit.Lock(t, locks, "held")
	before := calls.Load()
	_, err = root.UserChangePassword(t.Context(), "me", "another secret")
	testkit.Must(t, err)
	change("another secret")
	waiter := testkit.Waiting(t, byCall, claim("held"))
	testkit.CheckWorks(t, byCall)
	if calls.Load() == before {
		t.Error("the function was not called again")
	}
	if err := lease.Err(); err != nil {
		t.Errorf("the lease of before: %v", err)
	}
	p.CloseAll()
	testkit.Await(t, "it is connected again", func() bool {
		_, err := byCall.Keep(t.Context(), []store.Claim{waiter})
		return err == nil
	})
	told := testkit.Listen(byCall)
	testkit.Unlock(t, lease)
	for status := testkit.Ask(t, byCall, waiter); status.State != store.Held; status = testkit.Ask(t, byCall, waiter) {
		testkit.NextTold(t, told, "the release after the new connection")
	}
	testkit.Leave(t, byCall, waiter)
	_, err = handedIn.Join(t.Context(), claim("other"))
	testkit.CheckFault(t, err, true, "user or password is wrong")
}

// A login for which there is no password fails, and says why. The next one may succeed.
func TestNoCredentials(t *testing.T) {
	t.Parallel()
	server := servers.Etcd(t, servers.Password("open sesame"))
	file := filepath.Join(t.TempDir(), testkit.Secret)
	testkit.CheckFault(t, openError(t, "etcd://root@"+server.Addr()+"?password-file="+file), false, "cannot be read")
	testkit.Must(t, os.WriteFile(file, []byte("\n"), 0o600))
	testkit.CheckFault(t, openError(t, "etcd://root@"+server.Addr()+"?password-file="+file), false, "is empty")
	testkit.Must(t, os.WriteFile(file, []byte("open sesame"), 0o600))
	testkit.CheckWorks(t, openAt(t, "etcd://root@"+server.Addr()+"?password-file="+file))
	for _, test := range []struct {
		option etcdstore.Option
		final  bool
		says   string
	}{
		{etcdstore.WithCredentials(func(context.Context) (string, string, error) {
			return "root", testkit.Secret, errors.New("the vault is closed, secret")
		}), false, "the vault is closed"},
		{etcdstore.WithLogin("", "open sesame"), false, "is empty"},
		{etcdstore.WithLogin("root", testkit.Secret), true, "user or password is wrong"},
	} {
		_, err := etcdstore.Open(t.Context(), []string{server.Addr()}, test.option)
		testkit.CheckFault(t, err, test.final, test.says)
	}
	s, err := etcdstore.Open(t.Context(), []string{server.Addr()}, etcdstore.WithLogin("root", "open sesame"))
	testkit.Must(t, err)
	t.Cleanup(func() { s.Close() })
	testkit.CheckWorks(t, s)
}
