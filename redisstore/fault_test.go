package redisstore_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/servers"
	"github.com/holdfast-go/holdfast/internal/testkit"
	"github.com/holdfast-go/holdfast/redisstore"
	"github.com/holdfast-go/holdfast/store"
)

func TestOpenFaults(t *testing.T) {
	t.Parallel()
	locked := servers.Redis(t, servers.Password("open sesame"))
	plain := servers.Redis(t)
	certificates := servers.NewCertificates(t)
	encrypted := servers.Redis(t, servers.TLS(certificates), servers.Args("--tls-auth-clients", "yes"))
	replica := servers.Redis(t, servers.Args("--replicaof", "127.0.0.1 1"))
	limited := servers.Redis(t, servers.Args("--maxmemory", "100mb", "--maxmemory-policy", "volatile-lru"))
	const nobody = "127.0.0.1:1"
	for _, test := range []struct {
		name, url string
		final     bool
		says      string
	}{
		{"no password", "redis://" + locked.Addr(), true, "it wants a password"},
		{"wrong password", "redis://:secret@" + locked.Addr(), true, "does not know this user and password"},
		{"wrong user", "redis://me:secret@" + locked.Addr(), true, "does not know this user and password"},
		{"no such database", "redis://" + plain.Addr() + "/99", true, "no database of this number"},
		{"TLS to a plain port", "rediss://" + plain.Addr(), false, "does it speak TLS there"},
		{"an unknown authority", "rediss://" + encrypted.Addr(), true, "not trusted"},
		{"another name", "rediss://" + encrypted.Addr() + "?server-name=elsewhere&ca=" + certificates.CAFile, true,
			"not trusted"},
		{"plain to a TLS port", "redis://" + encrypted.Addr(), false, "cannot be reached"},
		{"nobody there", "redis://" + nobody, false, "cannot be reached"},
		{"no such socket", "redis+unix:///nowhere/at/all", false, "cannot be reached"},
		{"a replica", "redis://" + replica.Addr(), true, "it is a replica"},
		{"eviction", "redis://" + limited.Addr() + "?eviction=refuse", true, "volatile-lru"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel() // some take as long as a dial may
			_, err := tryOpen(t, test.url)
			checkFault(t, err, test.final, test.says)
		})
	}
	t.Run("no certificate", func(t *testing.T) {
		_, err := tryOpen(t, "rediss://"+encrypted.Addr()+"?ca="+certificates.CAFile)
		// The server's alert may be overtaken by the end of the connection. Then nobody can know more.
		if _, ok := errors.AsType[*store.Fault](err); !ok {
			t.Errorf("%v, which is no *store.Fault", err)
		}
	})
}

// Through holdfast.Open, the error has the masked URL.
func TestOpenMasksPassword(t *testing.T) {
	testkit.CheckMasked(t, "redis://me:secret@"+servers.Redis(t).Addr())
}

func TestURLs(t *testing.T) {
	testkit.RefuseURLs(t, map[string]string{
		"redis://":                                     "one host",
		"redis://a,b":                                  "one host",
		"redis://127.0.0.1/x":                          "database is a number",
		"redis://127.0.0.1/-1":                         "database is a number",
		"redis://127.0.0.1?startup-delay=1":            "startup-delay is a duration",
		"redis://127.0.0.1?startup-delay=-1s":          "startup-delay is a duration",
		"redis://127.0.0.1?eviction=no":                "eviction is",
		"redis://127.0.0.1?ca=x":                       "unknown parameter",
		"redis://127.0.0.1?gaurd=1s":                   "unknown parameter",
		"redis+unix://host/path":                       "three slashes",
		"redis+unix:path":                              "three slashes",
		"redis+unix:///path?db=x":                      "database is a number",
		"rediss://127.0.0.1?ca=/nowhere":               "ca: ",
		"rediss://127.0.0.1?ca=/dev/null":              "no certificate",
		"rediss://127.0.0.1?cert=/dev/null":            "go together",
		"rediss://127.0.0.1?cert=/nowhere&key=/no":     "cert and key",
		"rediss://127.0.0.1?insecure-skip-verify=yes!": "insecure-skip-verify is",
	})
}

// What other servers say of themselves that speak like Redis, in the fields that matter here.
const (
	valkeyInfo = "redis_version:7.2.4\r\nserver_name:valkey\r\nvalkey_version:8.0.1\r\nserver_mode:standalone\r\n" +
		"run_id:0123456789abcdef0123456789abcdef01234567\r\nrole:master\r\n"
	dragonflyInfo = "redis_version:7.4.0\r\ndragonfly_version:df-v1.40.1\r\nredis_mode:standalone\r\nrole:master\r\n" +
		"master_replid:0123456789abcdef0123456789abcdef01234567\r\n"
	keydbInfo = "redis_version:6.3.4\r\nredis_mode:standalone\r\nrun_id:0123456789abcdef0123456789abcdef01234567\r\n" +
		"features:cluster_mget\r\nrole:master\r\nmvcc_depth:0\r\n"
)

// Servers that speak like Redis are told by their own names.
func TestServersHaveNames(t *testing.T) {
	t.Parallel()
	for want, info := range map[string]string{"7.0.15": info, "Valkey 8.0.1": valkeyInfo, "KeyDB 6.3.4": keydbInfo} {
		f := newFake(t)
		f.says("INFO", bulk(info))
		if got := openAt(t, "redis://"+f.addr()).Server(); got.Version != want || got.Mode != "standalone" {
			t.Errorf("%+v, want %s, standalone", got, want)
		}
	}
}

// What a server may say of itself that is not suitable.
func TestUnusableServers(t *testing.T) {
	t.Parallel()
	for says, info := range map[string]string{
		"it is Dragonfly df-v1.40.1, whose INFO has no run_id": dragonflyInfo,
		"it is KeyDB 6.3.4 as an active replica": strings.Replace(
			keydbInfo, "master", "active-replica", 1),
		"it is KeyDB 6.0.16, and Redis 6.2 is the oldest": strings.Replace(keydbInfo, "6.3.4", "6.0.16", 1),
		"it is a Sentinel":                     strings.Replace(valkeyInfo, "standalone", "sentinel", 1),
		"it is a node of a cluster; name that": strings.Replace(valkeyInfo, "standalone", "cluster", 1),

		"6.2 is the oldest": strings.Replace(info, "7.0.15", "6.0.16", 1),
		"a Sentinel":        strings.Replace(info, "standalone", "sentinel", 1),
		"node of a cluster": strings.Replace(info, "standalone", "cluster", 1),
		"a replica":         strings.Replace(info, "master", "slave", 1),
	} {
		f := newFake(t)
		f.says("INFO", bulk(info))
		_, err := tryOpen(t, "redis://"+f.addr())
		checkFault(t, err, true, says)
	}
}

// A server that does not do what the scripts need is refused when the store is opened, whatever it calls itself, and
// before anything was written there.
func TestServersAreProbed(t *testing.T) {
	t.Parallel()
	const undeclared = "-ERR Error running script (call to f_1): @user_script:3: script tried accessing undeclared " +
		"key, key: x"
	for _, test := range []struct {
		command, answer, says string
	}{
		{"PROBE", undeclared, "--default_lua_flags=allow-undeclared-keys"},
		{"PROBE", "-ERR This Redis command is not allowed from script script: f_1",
			"keeps scripts from a command that locks need"},
		{"PROBE", "-ERR Unknown Redis command called from script script: f_1", "lacks a command that locks need"},
		{"PROBE", "-ERR unknown command 'EVALSHA', with args beginning with: 'abc' ",
			"it runs no scripts: it refused: unknown command 'EVALSHA'"},
		{"PROBE", "-NOPERM this user has no permissions to run the 'evalsha' command", "lacks a permission"},
		{"PROBE", ":1", "shape"},
	} {
		f := newFake(t)
		f.says(test.command, test.answer+"\r\n")
		f.says("ARRIVE", "-ERR it was written to\r\n")
		err := openError(t, "redis://"+f.addr())
		checkFault(t, err, test.says != "shape", test.says)
	}
}

// The probe does what the scripts do: on a real server it is told "ok" and changes nothing, and what it does is refused
// to a user who may not do it.
func TestProbe(t *testing.T) {
	t.Parallel()
	for name, options := range map[string][]servers.Option{"Redis": nil, "Valkey": {servers.Valkey()}} {
		t.Run(name, func(t *testing.T) {
			server := servers.Redis(t, options...)
			probe := func(keys ...string) string {
				return do(t, server, append([]string{"EVAL", redisstore.ProbeText, "1"}, keys...)...)
			}
			if got := probe("{p}:mark", "{p}:run", "{p}:push"); got != "ok" {
				t.Errorf("the probe says %s", got)
			}
			if got := do(t, server, "DBSIZE"); got != "0" {
				t.Errorf("it has left %s keys", got)
			}
			do(t, server, "CONFIG", "RESETSTAT")
			probe("{p}:mark", "{p}:run", "{p}:push")
			stats := do(t, server, "INFO", "commandstats")
			for _, command := range []string{"time", "get", "publish"} {
				if !strings.Contains(stats, "cmdstat_"+command+":calls=1,") {
					t.Errorf("the probe does no %s:\n%s", command, stats)
				}
			}
		})
	}
}

// What a server answers a call with that cannot be served.
func TestRefusals(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		answer string
		final  bool
		says   string
	}{
		{"-LOADING Redis is loading the dataset in memory", false, "still loading"},
		{"-READONLY You can't write against a read only replica. script: x, on @user_script:1.", false, "a replica"},
		{"-ERR Error running script (call to f_1): @user_script:3: @user_script: 3: -READONLY You can't write.", false,
			"a replica"},
		{"-OOM command not allowed when used memory > 'maxmemory'. script: x, on @user_script:1.", false,
			"memory is full"},
		{"-BUSY Redis is busy running a script.", false, "busy"},
		{"-MISCONF Redis is configured to save RDB snapshots, but is currently unable to persist on disk.", false,
			"cannot save"},
		{"-NOPERM this user has no permissions to run the 'evalsha' command", true, "lacks a permission"},
		{"-ERR ACL failure in script: User x has no permissions to run the 'zadd' command", true, "lacks a permission"},
		{"-WRONGTYPE Operation against a key holding the wrong kind of value script: x", true, "another kind"},
		{"-MASTERDOWN Link with MASTER is down", false, "lost its master"},
		{"-MOVED 3999 127.0.0.1:6381", true, "node of a cluster"},
		{"-ERR something else", false, "something else"},
		{"+OK", false, "shape"},
		{":-42", false, "shape"},
		{"$-1", false, "shape"},
		{"*0", false, "shape"},
		{"$3\r\nh x", false, "shape"},
		{"$4\r\nh 1 ", false, "shape"},
		{"*1\r\n$4\r\nh -1", false, "shape"},
		{"*2\r\n$1\r\ng\r\n$1\r\ng", false, "shape"},
		{"*3\r\n$2\r\nok\r\n$1\r\ng\r\n$1\r\ng", false, "shape"},
		{"*1\r\n*1\r\n$7\r\nh 1 1 x", false, "shape"},
		{"$5\r\nnewer", true, "newer version"},
	} {
		f := newFake(t)
		f.says("EVALSHA", test.answer+"\r\n")
		f.says("SCAN", "*2\r\n$1\r\n0\r\n*1\r\n"+bulk(redisstore.KeysOf("", "name")[0]))
		s := openAt(t, "redis://"+f.addr())
		for name, call := range testkit.Calls(s, claim("name")) {
			err := call(t.Context())
			switch {
			case test.says == "newer version":
				if name != "Keep" && name != "Names" && name != "Line" && !errors.Is(err, store.ErrFormat) {
					t.Errorf("%s answered with %q: %v", name, test.answer, err)
				}
			case name == "Names" && strings.HasPrefix(test.answer, "*"): // a list of one it takes for what it asked for
			default:
				t.Run(fmt.Sprintf("%s %.20q", name, test.answer),
					func(t *testing.T) { checkFault(t, err, test.final, test.says) })
			}
		}
		s.Close()
	}
}

// A server that takes every request and never answers.
func TestSilentServer(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	c := claim("silent")
	c.TTL = 200 * time.Millisecond
	// Of a new store: after some seconds it gives the connection up.
	calls := func() map[string]func(context.Context) error {
		return testkit.Calls(openAt(t, "redis://"+f.addr()), c)
	}
	for name := range calls() {
		call := calls()[name]
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		if err := call(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s: %v, want %v", name, err, context.DeadlineExceeded)
		}
		cancel()
	}
	for _, name := range []string{"Join", "Keep", "Leave"} {
		call, began := calls()[name], time.Now()
		checkFault(t, call(context.Background()), false, "no response in 200ms")
		if took := time.Since(began); took > testkit.Patience {
			t.Errorf("%s took %v, and the ttl is %v", name, took, c.TTL)
		}
	}
}

// Not even opening a store hangs, nor closing it.
func TestServerThatOnlyAccepts(t *testing.T) {
	f := newFake(t)
	f.says("HELLO", "")
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	at := testkit.Locate(t, "redis://"+f.addr())
	began := time.Now()
	if _, err := store.Open(ctx, at); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v, want %v", err, context.DeadlineExceeded)
	}
	if took := time.Since(began); took > 4*time.Second {
		t.Errorf("it took %v", took)
	}
}

// Whoever calls while another waits for a connection gives up when his own context says so.
func TestDialDoesNotHoldUp(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	s := openAt(t, "redis://"+f.addr())
	f.says("HELLO", "")
	f.says("EVALSHA", "") // and the connection ends
	f.hangUp()
	first := make(chan error, 1)
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		defer cancel()
		_, err := s.Queue(ctx, "first")
		first <- err
	}()
	testkit.Await(t, "the connection is noticed to be gone", func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		defer cancel()
		began := time.Now()
		_, err := s.Queue(ctx, "second")
		if took := time.Since(began); took > 3*time.Second { // and a dial takes five
			t.Fatalf("a call of 20 ms took %v", took)
		}
		return errors.Is(err, context.DeadlineExceeded)
	})
	<-first
}

// A foreign key under our name is refused and left alone, and the other claims of a batch are kept.
func TestForeignKeys(t *testing.T) {
	t.Parallel()
	server, s := newServer(t, "")
	good := testkit.Held(t, s, claim("good"))
	for _, plant := range [][]string{
		{"LPUSH", "x"}, {"SADD", "x"}, {"HSET", "f", "x"}, {"ZADD", "1", "x"},
		{"SET", "x"}, {"SET", ""}, {"SET", "1 s"}, {"SET", "1 s x"}, {"SET", "1 m 1 2"}, {"SET", "1 q 1 2 3 4 5"},
	} {
		key := redisstore.KeysOf("", "foreign")[0]
		do(t, server, append([]string{plant[0], key}, plant[1:]...)...)
		before := do(t, server, "DUMP", key)
		c := claim("foreign")
		for name, call := range testkit.Calls(s, c) {
			if name != "Names" {
				t.Run(fmt.Sprint(name, plant), func(t *testing.T) { checkFault(t, call(t.Context()), true) })
			}
		}
		standings, err := s.Keep(t.Context(), []store.Claim{c, good})
		if err != nil || standings[1].Err != nil || standings[1].State != store.Held {
			t.Errorf("beside a foreign key of %v: %+v and %v", plant, standings, err)
		} else {
			checkFault(t, standings[0].Err, true)
		}
		if after := do(t, server, "DUMP", key); after != before {
			t.Errorf("the foreign key of %v was changed", plant)
		}
		do(t, server, "DEL", key)
	}
}

// A real server that is full, busy, or made a replica: an error, and afterwards all goes on.
func TestServerInTrouble(t *testing.T) {
	t.Parallel()
	server, s := newServer(t, "", servers.Args("--busy-reply-threshold", "10"))
	holder := testkit.Held(t, s, claim("held"))
	attempt := func() error {
		c := claim("other")
		_, err := s.Join(t.Context(), c)
		if err == nil {
			err = s.Leave(t.Context(), c)
		}
		return err
	}
	do(t, server, "CONFIG", "SET", "maxmemory", "1")
	checkFault(t, attempt(), false, "memory is full")
	testkit.Keep(t, s, holder, store.Held) // what is held can be kept
	do(t, server, "CONFIG", "SET", "maxmemory", "0")
	if err := attempt(); err != nil {
		t.Errorf("when there is memory again: %v", err)
	}

	do(t, server, "REPLICAOF", "127.0.0.1", "1")
	checkFault(t, attempt(), false, "a replica")
	do(t, server, "REPLICAOF", "NO", "ONE")
	testkit.Await(t, "it is the master again", func() bool { return attempt() == nil })

	endless, err := server.Dial()
	testkit.Must(t, err)
	defer endless.Close()
	testkit.Must(t, endless.Send("EVAL", "while true do end", "0"))
	testkit.Await(t, "the server is busy", func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		c := claim("busy")
		_, err := s.Join(ctx, c)
		return err != nil && strings.Contains(err.Error(), "busy with somebody's script")
	})
	do(t, server, "SCRIPT", "KILL")
	testkit.Await(t, "the server is not busy any more", func() bool { return attempt() == nil })
}
