package etcdstore_test

import (
	"fmt"
	"net/url"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/authpb"
	"go.etcd.io/etcd/client/v3"

	"github.com/holdfast-go/holdfast/etcdstore"
	"github.com/holdfast-go/holdfast/internal/servers"
	"github.com/holdfast-go/holdfast/internal/testkit"
	"github.com/holdfast-go/holdfast/store"
)

// documentedRange is the range of keys that the package's documentation gives the smallest role.
func documentedRange(t *testing.T, prefix string) (key, end string) {
	t.Helper()
	text, err := os.ReadFile("doc.go")
	testkit.Must(t, err)
	found := regexp.MustCompile(`role grant-permission \w+ --prefix=true readwrite (\S+)`).FindSubmatch(text)
	if found == nil {
		t.Fatal("doc.go does not say what the smallest role is")
	}
	key = strings.Replace(string(found[1]), "P", prefix, 1)
	return key, clientv3.GetPrefixRangeEnd(key)
}

// addUser makes a user with one permission, whose password is secret.
func addUser(t *testing.T, root *clientv3.Client, user, key, end string, may authpb.Permission_Type) {
	t.Helper()
	_, err := root.UserAdd(t.Context(), user, "secret")
	if err == nil {
		_, err = root.RoleAdd(t.Context(), user)
	}
	if err == nil {
		_, err = root.RoleGrantPermission(t.Context(), user, key, end, clientv3.PermissionType(may))
	}
	if err == nil {
		_, err = root.UserGrantRole(t.Context(), user, user)
	}
	testkit.Must(t, err)
}

// The role of the documentation is enough for everything, also for giving the session back.
func TestSmallestRole(t *testing.T) {
	t.Parallel()
	server := servers.Etcd(t, servers.Password("open sesame"))
	root := server.Client(t)
	for i, prefix := range []string{"", "tenant"} {
		user := fmt.Sprint("user", i)
		key, end := documentedRange(t, prefix)
		addUser(t, root, user, key, end, clientv3.PermReadWrite)
		at := "etcd://" + user + ":secret@" + server.Addr()
		s := openAt(t, at+"?prefix="+prefix)
		testkit.CheckWorks(t, s)
		testkit.Check(t, s.Close())
		left, err := root.Get(t.Context(), key, clientv3.WithPrefix(), clientv3.WithKeysOnly())
		if err != nil || len(left.Kvs) != 1 || string(left.Kvs[0].Key) != key+"id" {
			t.Errorf("after Close there is left %v, %v; want only the identity", left, err)
		}
		// Another tenant's keys are out of reach.
		checkFault(t, openError(t, at+"?prefix=other"), true, "lacks a permission")
	}
}

// It is the smallest: with less of it, something fails, and says why.
func TestSmallestRoleIsSmallest(t *testing.T) {
	t.Parallel()
	server := servers.Etcd(t, servers.Password("open sesame"))
	root := server.Client(t)
	key, end := documentedRange(t, "")
	for user, less := range map[string]struct {
		key, end string
		may      authpb.Permission_Type
	}{
		"reader":      {key, end, clientv3.PermRead},
		"writer":      {key, end, clientv3.PermWrite},
		"noidentity":  {key + "j", end, clientv3.PermReadWrite},
		"nosessions":  {key, key + "session/", clientv3.PermReadWrite},
		"otherprefix": {"holdfast/other/", "holdfast/other0", clientv3.PermReadWrite},
	} {
		addUser(t, root, user, less.key, less.end, less.may)
		s, err := tryOpen(t, "etcd://"+user+":secret@"+server.Addr())
		if err == nil {
			err = testkit.Tour(t.Context(), s)
			s.Close()
		}
		if err == nil {
			t.Errorf("with less (%s) all works", user)
		} else {
			checkFault(t, err, true, "lacks a permission")
		}
	}
}

// A permission that is taken away is missed by the next call.
func TestPermissionTakenAway(t *testing.T) {
	t.Parallel()
	server := servers.Etcd(t, servers.Password("open sesame"))
	root := server.Client(t)
	key, end := documentedRange(t, "")
	addUser(t, root, "me", key, end, clientv3.PermReadWrite)
	s := openAt(t, "etcd://me:secret@"+server.Addr())
	c := testkit.Held(t, s, claim("mine"))
	_, err := root.RoleRevokePermission(t.Context(), "me", key, end)
	testkit.Must(t, err)
	for _, call := range testkit.Calls(s, c) {
		checkFault(t, call(t.Context()), true, "lacks a permission")
	}
	_, err = root.RoleGrantPermission(t.Context(), "me", key, end, clientv3.PermissionType(clientv3.PermReadWrite))
	testkit.Must(t, err)
	testkit.CheckWorks(t, s)
}

func TestConnections(t *testing.T) {
	t.Parallel()
	certificates := servers.NewCertificates(t)
	encrypted := servers.Etcd(t, servers.TLS(certificates), servers.Password("open sesame"),
		servers.Args("--client-cert-auth", "--trusted-ca-file", certificates.CAFile))
	open := servers.Etcd(t)
	own := fmt.Sprintf("cert=%s&key=%s", certificates.CertFile, certificates.KeyFile)
	authority := "&ca=" + certificates.CAFile
	root := "root:open%20sesame@"
	for name, url := range map[string]string{
		"TLS":                  "etcds://" + root + encrypted.Addr() + "?" + own + authority,
		"TLS by another name":  "etcds://" + root + encrypted.Addr() + "?" + own + authority + "&server-name=localhost",
		"TLS without checking": "etcds://" + root + encrypted.Addr() + "?" + own + "&insecure-skip-verify=true",
		"a needless password":  "etcd://me:secret@" + open.Addr(),
		"one of two members":   "etcd://" + testkit.Nobody(t) + "," + open.Addr(),
		"an odd prefix":        "etcd://" + open.Addr() + "?prefix=" + url.QueryEscape("{a/b}*\n%"),
		"the longest prefix":   "etcd://" + open.Addr() + "?prefix=" + strings.Repeat("p", store.MaxName),
	} {
		t.Run(name, func(t *testing.T) { testkit.CheckWorks(t, openAt(t, url)) })
	}
}

// A client that was handed in stays its owner's, and serves several stores.
func TestNew(t *testing.T) {
	t.Parallel()
	server := servers.Etcd(t)
	client := server.Client(t)
	var stores []*etcdstore.Store
	for _, prefix := range []string{"handed", "handed", "other"} {
		s, err := etcdstore.New(t.Context(), client, etcdstore.WithPrefix(prefix))
		testkit.Must(t, err)
		t.Cleanup(func() { s.Close() })
		testkit.CheckWorks(t, s)
		if got, want := s.Abilities().Store, "etcd at "+server.Addr(); got != want {
			t.Errorf("it is called %q, want %q", got, want)
		}
		stores = append(stores, s)
	}
	a, b, other := stores[0], stores[1], stores[2]
	if a.Abilities().Identity != b.Abilities().Identity || a.Abilities().Identity == other.Abilities().Identity {
		t.Error("identities do not tell which stores see the same names")
	}
	told := testkit.Listen(b)
	testkit.Held(t, a, claim("same"))
	waiter, stranger := testkit.Waiting(t, b, claim("same")), testkit.Held(t, other, claim("same"))
	if err := a.Close(); err != nil { // and what it held goes with it
		t.Error(err)
	}
	testkit.AwaitTold(t, told, waiter.ID, "the other store on this client is told")
	testkit.Keep(t, b, waiter, store.Held)
	testkit.Keep(t, other, stranger, store.Held)
	if _, err := client.Get(t.Context(), "any"); err != nil {
		t.Errorf("the client was closed with the store: %v", err)
	}
}

// Leases have whole seconds, and not too few of them.
func TestSessionTTL(t *testing.T) {
	t.Parallel()
	server := servers.Etcd(t)
	client := server.Client(t)
	for query, want := range map[string]time.Duration{
		"":            etcdstore.DefaultTTL,
		"?ttl=1ms":    time.Second,
		"?ttl=1s":     time.Second,
		"?ttl=1500ms": 2 * time.Second,
		"?ttl=2s":     2 * time.Second,
		"?ttl=168h":   etcdstore.MaxTTL,
	} {
		s := openAt(t, "etcd://"+server.Addr()+query)
		if a := s.Abilities(); a.SessionTTL != want || a.MinTTL != want {
			t.Errorf("%q: the abilities say %v and %v, want %v", query, a.SessionTTL, a.MinTTL, want)
		}
		leases, err := client.Leases(t.Context())
		if err != nil || len(leases.Leases) != 1 {
			t.Fatalf("%q: %v, %v", query, leases, err)
		}
		if left, err := client.TimeToLive(t.Context(), leases.Leases[0].ID); err != nil ||
			left.GrantedTTL != int64(want.Seconds()) {
			t.Errorf("%q: etcd has granted %v, %v; want %v", query, left, err, want)
		}
		c := claim("one")
		if status := testkit.Join(t, s, &c, store.Held); time.Until(status.Until) > want {
			t.Errorf("%q: it is believed for %v", query, time.Until(status.Until))
		}
		s.Close()
	}
}

// A lock cannot have a shorter ttl than the session, and one that asks for more has the session's.
func TestTTLOfLock(t *testing.T) {
	_, s := newServer(t, "?ttl=5s")
	testkit.CheckSessionTTL(t, s, 5*time.Second)
}
