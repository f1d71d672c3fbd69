package zkstore_test

import (
	"net/url"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-go/holdfast/internal/servers"
	"github.com/holdfast-go/holdfast/internal/testkit"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/zkstore"
)

// shortTicks are parameters for the servers of the tests. The sessions outlive the pauses of a busy machine.
const shortTicks = "?tick=200ms&ttl=5s"

// claimOf is a claim to everything of a name.
func claimOf(name string) store.Claim { return testkit.Claim(name, sessionTTL) }

// openURL opens the store at a URL, which must work.
func openURL(t testing.TB, raw string) *zkstore.Store {
	t.Helper()
	return testkit.Open(t, raw).(*zkstore.Store)
}

// checkFault is testkit.CheckFault for a fault that names a server of this machine.
func checkFault(t testing.TB, err error, final bool, words ...string) {
	t.Helper()
	testkit.CheckFault(t, err, final, append(words, "zookeeper at 127.0.0.1:")...)
}

// dial returns a connection of the library, past everything of the store. A user may be empty.
func dial(t testing.TB, addr, user string) *zk.Conn {
	t.Helper()
	conn, events, err := zk.Connect([]string{addr}, 10*time.Second, zk.WithLogger(quiet{}))
	testkit.Must(t, err)
	t.Cleanup(func() {
		conn.Close()
		for range events { // until it has ended
		}
	})
	if user != "" {
		testkit.Must(t, conn.AddAuth("digest", []byte(user)))
	}
	return conn
}

func makeNode(t testing.TB, conn *zk.Conn, path string, acl []zk.ACL) {
	t.Helper()
	_, err := conn.Create(path, nil, 0, acl)
	testkit.Must(t, err)
}

func TestConnections(t *testing.T) {
	t.Parallel()
	certificates := servers.NewCertificates(t)
	encrypted := servers.ZooKeeper(t, servers.TLS(certificates))
	strict := servers.ZooKeeper(t, servers.TLS(certificates), servers.Args("ssl.clientAuth=need"))
	open := servers.ZooKeeper(t)
	conn := dial(t, open.Addr(), "")
	makeNode(t, conn, "/app", zk.WorldACL(zk.PermAll))
	makeNode(t, conn, "/app/locks", zk.WorldACL(zk.PermAll))
	authority := "&ca=" + certificates.CAFile
	own := "&cert=" + certificates.CertFile + "&key=" + certificates.KeyFile
	for name, url := range map[string]string{
		"TLS":                  "zks://" + encrypted.Addr() + shortTicks + authority,
		"TLS by another name":  "zks://" + encrypted.Addr() + shortTicks + authority + "&server-name=localhost",
		"TLS without checking": "zks://" + encrypted.Addr() + shortTicks + "&insecure-skip-verify=true",
		"TLS with a password": "zks://me:secret@" + encrypted.Addr() + "/" + shortTicks + authority +
			"&prefix=mine",
		"TLS with a certificate": "zks://" + strict.Addr() + shortTicks + authority + own,
		"a chroot":               "zk://" + open.Addr() + "/app/locks" + shortTicks,
		"a user":                 "zk://me:secret@" + open.Addr() + "/app" + shortTicks,
		"one of two servers":     "zk://" + testkit.Nobody(t) + "," + open.Addr() + shortTicks,
		"an odd prefix":          "zk://" + open.Addr() + shortTicks + "&prefix=" + url.QueryEscape("{a/b}*\n%. ü"),
		"the longest prefix": "zk://" + open.Addr() + shortTicks +
			"&prefix=" + strings.Repeat("p", store.MaxName),
		"a prefix of dots":         "zk://" + open.Addr() + shortTicks + "&prefix=..",
		"Holdfast's layout, named": "zk://" + open.Addr() + shortTicks + "&layout=holdfast",
		"Curator's layout":         "zk://" + open.Addr() + "/app/locks" + shortTicks + "&layout=curator",
	} {
		t.Run(name, func(t *testing.T) { testkit.CheckWorks(t, openURL(t, url)) })
	}
}

func TestOpenFaults(t *testing.T) {
	t.Parallel()
	plain := servers.ZooKeeper(t)
	certificates, strange := servers.NewCertificates(t), servers.NewCertificates(t)
	encrypted := servers.ZooKeeper(t, servers.TLS(certificates))
	strict := servers.ZooKeeper(t, servers.TLS(certificates), servers.Args("ssl.clientAuth=need"))
	nobody, silent := testkit.Nobody(t), testkit.Silent(t)
	authority := "&ca=" + certificates.CAFile
	for _, test := range []struct {
		name, scheme, at string
		final            bool
		says             string
	}{
		{"nobody there", "zk", nobody + shortTicks, false, "cannot be reached"},
		{"nobody at two addresses", "zk", nobody + "," + testkit.Nobody(t) + shortTicks, false, "cannot be reached"},
		{"no response", "zk", silent + shortTicks, false, "taken the connection and no session"},
		{"no response to TLS", "zks", silent + shortTicks, false, "TLS"},
		{"an unknown authority", "zks", encrypted.Addr() + shortTicks, true, "certificate"},
		{"another authority", "zks", encrypted.Addr() + shortTicks + "&ca=" + strange.CAFile, true, "certificate"},
		{"another name", "zks", encrypted.Addr() + shortTicks + authority + "&server-name=elsewhere", true,
			"certificate"},
		{"no certificate", "zks", strict.Addr() + shortTicks + authority, false, "TLS"},
		{"TLS to a plain port", "zks", plain.Addr() + shortTicks, false, "TLS"},
		{"plain to a TLS port", "zk", encrypted.Addr() + shortTicks, false, "zks://"},
		{"no such node", "zk", plain.Addr() + "/nowhere" + shortTicks, true, `there is no node "/nowhere"`},
		{"a ttl that is too long", "zk", plain.Addr() + "?tick=200ms&ttl=1h", true,
			"most that the server allows is 10m0s"},
		{"a ttl that is too short", "zk", plain.Addr() + "?tick=20ms&ttl=100ms", true, "server allows is 400ms"},
	} {
		for _, user := range []string{"", "me:secret@"} {
			t.Run(test.name+strings.TrimSuffix(user, ":secret@"), func(t *testing.T) {
				t.Parallel() // some take as long as a response may
				began := time.Now()
				checkFault(t, testkit.OpenError(t, test.scheme+"://"+user+test.at), test.final, test.says)
				if took := time.Since(began); took > 15*time.Second {
					t.Errorf("it took %v", took)
				}
			})
		}
	}
}

// A server of 3.4 knows no container nodes.
func TestOldServer(t *testing.T) {
	t.Parallel()
	old := countRequests(t, servers.ZooKeeper(t).Addr(), opCreateContainer)
	checkFault(t, testkit.OpenError(t, "zk://"+old.addr+shortTicks), true, "too old", "3.5 or later")
}

// The response to the request that makes the session's node is lost with the connection. The request is repeated, and
// the store opens.
func TestLostResponseWhileOpening(t *testing.T) {
	t.Parallel()
	way := countRequests(t, servers.ZooKeeper(t).Addr(), 0)
	way.loses = "/holdfast/session/"
	testkit.CheckWorks(t, openURL(t, "zk://"+way.addr+shortTicks))
	way.mu.Lock()
	defer way.mu.Unlock()
	if way.loses != "" {
		t.Error("no response was lost")
	}
}

// Not even opening a store takes longer than its context.
func TestOpenEndsWithContext(t *testing.T) {
	t.Parallel()
	for _, addr := range []string{testkit.Silent(t), testkit.Nobody(t) + "," + testkit.Silent(t)} {
		for _, scheme := range []string{"zk://", "zks://", "zk://me:secret@"} {
			testkit.CheckOpenEnds(t, scheme+addr)
		}
	}
}

// A user of ZooKeeper's is every client that knows the password: a wrong one is that of another user, whom the nodes
// refuse.
func TestPermissions(t *testing.T) {
	t.Parallel()
	server := servers.ZooKeeper(t)
	at := server.Addr() + shortTicks
	admin := dial(t, server.Addr(), "admin:hidden")
	makeNode(t, admin, "/closed", zk.AuthACL(zk.PermAll))
	makeNode(t, admin, "/readable", append(zk.AuthACL(zk.PermAll), zk.WorldACL(zk.PermRead)...))
	testkit.CheckWorks(t, openURL(t, "zk://owner:hidden@"+at))
	for name, raw := range map[string]string{
		"nodes of another user":    "zk://me:secret@" + at,
		"another password":         "zk://owner:secret@" + at,
		"nobody":                   "zk://" + at,
		"a root that is closed":    "zk://me:secret@" + server.Addr() + "/closed" + shortTicks,
		"a root that can be read":  "zk://me:secret@" + server.Addr() + "/readable" + shortTicks,
		"the same, without a user": "zk://" + server.Addr() + "/readable" + shortTicks,
		"the same, with a prefix":  "zk://me:secret@" + server.Addr() + "/readable" + shortTicks + "&prefix=p",
		"the same, Curator's":      "zk://me:secret@" + server.Addr() + "/readable" + shortTicks + "&layout=curator",
		"the same, its read-writes": "zk://me:secret@" + server.Addr() + "/readable" + shortTicks +
			"&layout=curator-rw",
	} {
		t.Run(name, func(t *testing.T) { checkFault(t, testkit.OpenError(t, raw), true, "no permission for") })
	}
	// With prefixes, tenants with different users share the nodes above theirs.
	for _, user := range []string{"owner:hidden", "me:secret"} {
		tenant := openURL(t, "zk://"+user+"@"+server.Addr()+shortTicks+"&prefix="+user[:2])
		testkit.CheckWorks(t, tenant)
	}
}

// documentedACL returns the permissions that the package's documentation gives the smallest ACL.
func documentedACL(t *testing.T) (path string, permissions int32) {
	t.Helper()
	text, err := os.ReadFile("doc.go")
	testkit.Must(t, err)
	found := regexp.MustCompile(`create (/\S+) "" digest:\S+:([crwda]+)\n`).FindSubmatch(text)
	if found == nil {
		t.Fatal("doc.go does not say what the smallest ACL is")
	}
	letters := map[rune]int32{
		'c': zk.PermCreate, 'r': zk.PermRead, 'w': zk.PermWrite, 'd': zk.PermDelete, 'a': zk.PermAdmin,
	}
	for _, letter := range string(found[2]) {
		permissions |= letters[letter]
	}
	return string(found[1]), permissions
}

// The ACL of the documentation is enough for everything, and there is none that allows less.
func TestSmallestACL(t *testing.T) {
	t.Parallel()
	server := servers.ZooKeeper(t)
	path, smallest := documentedACL(t)
	admin := dial(t, server.Addr(), "admin:hidden")
	for root, permissions := range map[string]int32{"/enough": smallest, "/less": zk.PermAll &^ smallest} {
		makeNode(t, admin, root, zk.AuthACL(zk.PermAll))
		makeNode(t, admin, root+path, zk.DigestACL(permissions, "me", "secret"))
		raw := "zk://me:secret@" + server.Addr() + root + shortTicks
		if permissions == smallest {
			testkit.CheckWorks(t, openURL(t, raw))
		} else {
			checkFault(t, testkit.OpenError(t, raw), true, "no permission for")
		}
	}
}

// A tenant whose node an administrator has made needs no permission above it.
func TestSmallestACLOfTenant(t *testing.T) {
	t.Parallel()
	server := servers.ZooKeeper(t)
	path, smallest := documentedACL(t)
	admin := dial(t, server.Addr(), "admin:hidden")
	makeNode(t, admin, path, zk.AuthACL(zk.PermAll))
	makeNode(t, admin, path+"/tenant", zk.AuthACL(zk.PermAll))
	makeNode(t, admin, path+"/tenant/p", zk.DigestACL(smallest, "me", "secret"))
	raw := "zk://me:secret@" + server.Addr() + shortTicks + "&prefix="
	testkit.CheckWorks(t, openURL(t, raw+"p"))
	checkFault(t, testkit.OpenError(t, raw+"q"), true, "no permission for")
}

// A permission that is taken away is missed by the next call.
func TestPermissionTakenAway(t *testing.T) {
	t.Parallel()
	server := servers.ZooKeeper(t)
	s := openURL(t, "zk://me:secret@"+server.Addr()+shortTicks)
	held := testkit.Held(t, s, claimOf("mine"))
	owner := dial(t, server.Addr(), "me:secret")
	line := zkstore.LinePath("", "", "mine")
	_, err := owner.SetACL(line, zk.DigestACL(zk.PermRead|zk.PermAdmin, "me", "secret"), -1)
	testkit.Must(t, err)
	_, err = s.Join(t.Context(), claimOf("mine"))
	checkFault(t, err, true, "no permission for")
	checkFault(t, s.Leave(t.Context(), held), true, "no permission for")
	_, err = owner.SetACL(line, zk.DigestACL(zk.PermAll, "me", "secret"), -1)
	testkit.Must(t, err)
	testkit.Await(t, "what was left goes", func() bool { return testkit.Length(t, s, "mine") == 0 })
	testkit.CheckWorks(t, s)
}

// A claim can't shrink when the permission for that is taken away. Keep says so, does not ask again and again, and
// keeps other claims.
func TestPermissionToShrinkTakenAway(t *testing.T) {
	t.Parallel()
	server := servers.ZooKeeper(t)
	way := countRequests(t, server.Addr(), 0)
	s := openURL(t, "zk://me:secret@"+way.addr+shortTicks)
	held := testkit.Held(t, s, claimOf("mine"))
	owner := dial(t, server.Addr(), "me:secret")
	_, err := owner.SetACL(zkstore.LinePath("", "", "mine"), zk.DigestACL(zk.PermAll&^zk.PermCreate, "me", "secret"),
		-1)
	testkit.Must(t, err)
	other := testkit.Held(t, s, claimOf("other"))
	before := way.sofar()
	held.Units = 1
	kept, err := s.Keep(t.Context(), []store.Claim{held, other})
	testkit.Must(t, err)
	checkFault(t, kept[0].Err, true, "no permission for")
	if kept[1].Err != nil || kept[1].State != store.Held {
		t.Errorf("the other claim: %+v", kept[1])
	}
	if asked := since(before, way.sofar()); total(asked) > 10 {
		t.Errorf("Keep was %v", asked)
	}
	_, err = owner.SetACL(zkstore.LinePath("", "", "mine"), zk.DigestACL(zk.PermAll, "me", "secret"), -1)
	testkit.Must(t, err)
	testkit.Keep(t, s, held, store.Held)
}

// A claim whose node may not be written any more is an error of that claim alone, and at once: others are kept. It is
// kept again when its node may be written.
func TestPermissionToWriteTakenAway(t *testing.T) {
	t.Parallel()
	server := servers.ZooKeeper(t)
	s := openURL(t, "zk://me:secret@"+server.Addr()+shortTicks)
	held, other := testkit.Held(t, s, claimOf("mine")), testkit.Held(t, s, claimOf("other"))
	owner := dial(t, server.Addr(), "me:secret")
	line := zkstore.LinePath("", "", "mine")
	children, _, err := owner.Children(line)
	testkit.Must(t, err)
	node := line + "/" + zkstore.NodeOf("", children, held.ID)
	_, err = owner.SetACL(node, zk.DigestACL(zk.PermRead|zk.PermAdmin, "me", "secret"), -1)
	testkit.Must(t, err)
	held.Turn++ // to be written
	began := time.Now()
	statuses, err := s.Keep(t.Context(), []store.Claim{held, other})
	testkit.Must(t, err)
	checkFault(t, statuses[0].Err, true, "no permission for")
	if took := time.Since(began); statuses[1].State != store.Held || took > held.TTL/2 {
		t.Errorf("after %v the other is %v, %v", took, statuses[1].State, statuses[1].Err)
	}
	_, err = owner.SetACL(node, zk.DigestACL(zk.PermAll, "me", "secret"), -1)
	testkit.Must(t, err)
	statuses, err = s.Keep(t.Context(), []store.Claim{held, other})
	testkit.Must(t, err)
	if statuses[0].State != store.Held {
		t.Errorf("when it may be written it is %v, %v", statuses[0].State, statuses[0].Err)
	}
}

// Through holdfast.Open, the error has the masked URL.
func TestOpenMasksPassword(t *testing.T) {
	testkit.CheckMasked(t, "zk://me:secret@"+testkit.Nobody(t))
	testkit.CheckMasked(t, "zk://me:secret@"+servers.ZooKeeper(t).Addr()+"/nowhere")
}

func TestURLs(t *testing.T) {
	testkit.RefuseURLs(t, map[string]string{
		"zk://me:secret@127.0.0.1?password-file=/x":  "a user without a password",
		"zk://127.0.0.1?password-file=/x":            "a user without a password",
		"zk://":                                      "one server or more",
		"zk:///locks":                                "one server or more",
		"zk:locks":                                   "one server or more",
		"zk://127.0.0.1,/":                           "malformed",
		"zk://127.0.0.1:1:2":                         "malformed",
		"zk://127.0.0.1//":                           "is not the path of a node",
		"zk://127.0.0.1//secret":                     "is not the path of a node",
		"zk://127.0.0.1/secret//b":                   "is not the path of a node",
		"zk://127.0.0.1/secret/../b":                 "is not the path of a node",
		"zk://127.0.0.1/./secret":                    "is not the path of a node",
		"zk://127.0.0.1/secret%00":                   "is not the path of a node",
		"zk://127.0.0.1/secret%01":                   "is not the path of a node",
		"zk://127.0.0.1/secret%FF":                   "is not the path of a node",
		"zk://127.0.0.1/secret%EF%BF%BF":             "is not the path of a node",
		"zk://127.0.0.1/secret%C2%80":                "is not the path of a node",
		"zk://127.0.0.1?db=1":                        "unknown parameter",
		"zk://127.0.0.1?ca=x":                        "unknown parameter",
		"zk://127.0.0.1?tll=10s":                     "unknown parameter",
		"zks://127.0.0.1?ca=x&ca=y":                  "2 times",
		"zk://me@127.0.0.1":                          "go together",
		"zk://me:@127.0.0.1":                         "go together",
		"zk://:secret@127.0.0.1":                     "go together",
		"zk://127.0.0.1?ttl=0s":                      "positive duration",
		"zk://127.0.0.1?ttl=10":                      "positive duration",
		"zk://127.0.0.1?tick=0s":                     "positive duration",
		"zk://127.0.0.1?tick=-1s":                    "positive duration",
		"zk://127.0.0.1?tick=secret":                 "positive duration",
		"zk://127.0.0.1?ttl=25h":                     "up to 24h0m0s",
		"zk://127.0.0.1?ttl=1500us&tick=1us":         "whole milliseconds",
		"zk://127.0.0.1?ttl=11s":                     "at least 4 ticks",
		"zk://127.0.0.1?tick=10s":                    "at least 4 ticks",
		"zk://127.0.0.1?tick=8h&ttl=24h":             "at least 4 ticks",
		"zk://127.0.0.1?tick=900000h":                "at least 4 ticks",
		"zk://127.0.0.1?layout=secret":               "layout is holdfast, curator or curator-rw",
		"zk://127.0.0.1?layout=curator&prefix=p":     "there is no prefix",
		"zk://127.0.0.1?prefix=%00":                  "prefix",
		"zks://127.0.0.1?ca=/nowhere":                "ca: ",
		"zks://127.0.0.1?ca=/dev/null":               "no certificate",
		"zks://127.0.0.1?cert=/dev/null":             "go together",
		"zks://127.0.0.1?cert=/nowhere&key=/no":      "cert and key",
		"zks://127.0.0.1?insecure-skip-verify=maybe": "insecure-skip-verify is",
	})
}

// Settings in Go are checked as those of a URL are.
func TestBadSettings(t *testing.T) {
	none := []string{testkit.Nobody(t)}
	for _, test := range []struct {
		servers []string
		option  zkstore.Option
		says    string
	}{
		{nil, zkstore.WithTTL(time.Minute), "one server or more"},
		{none, zkstore.WithTTL(-time.Second), "not -1s"},
		{none, zkstore.WithTTL(time.Microsecond), "not 1µs"},
		{none, zkstore.WithTTL(25 * time.Hour), "not 25h0m0s"},
		{none, zkstore.WithTick(-time.Second), "at least 4 ticks"},
		{none, zkstore.WithChroot("locks"), "is not the path of a node"},
		{none, zkstore.WithLayout("kazoo"), "layout is"},
		{none, zkstore.WithPrefix("\x00"), "bad name"},
		{none, zkstore.WithLogin("", "secret"), "go together"},
		{none, zkstore.WithLogin("me", ""), "go together"},
		{none, zkstore.WithLogin("me:you", "secret"), "colon"},
	} {
		_, err := zkstore.Open(t.Context(), test.servers, test.option)
		if err == nil || !strings.Contains(err.Error(), test.says) || strings.Contains(err.Error(), testkit.Secret) {
			t.Errorf("%v, which does not say %q", err, test.says)
		}
	}
}

// The session's ttl is that of all locks: one can't ask for less, and one that asks for more has the session's.
func TestTTLOfLock(t *testing.T) {
	t.Parallel()
	testkit.CheckSessionTTL(t, openURL(t, "zk://"+servers.ZooKeeper(t).Addr()+"?tick=200ms&ttl=5s"), 5*time.Second)
}
