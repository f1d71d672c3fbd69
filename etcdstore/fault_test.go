package etcdstore_test

import (
	"context"
	"errors"
	"regexp"
	"strings"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/holdfast-go/holdfast/etcdstore"
	"github.com/holdfast-go/holdfast/internal/servers"
	"github.com/holdfast-go/holdfast/internal/testkit"
	"github.com/holdfast-go/holdfast/store"
)

func TestOpenFaults(t *testing.T) {
	t.Parallel()
	protected := servers.Etcd(t, servers.Password("open sesame"))
	plain := servers.Etcd(t)
	certificates, strange := servers.NewCertificates(t), servers.NewCertificates(t)
	encrypted := servers.Etcd(t, servers.TLS(certificates),
		servers.Args("--client-cert-auth", "--trusted-ca-file", certificates.CAFile))
	nobody, silent := testkit.Nobody(t), testkit.Silent(t)
	authority := "?ca=" + certificates.CAFile
	both := authority + "&cert=" + certificates.CertFile + "&key=" + certificates.KeyFile
	for _, test := range []struct {
		name, scheme, at string
		final            bool
		says             string // a pattern
	}{
		{"an unknown authority", "etcds", encrypted.Addr(), true, "not trusted"},
		{"another authority", "etcds", encrypted.Addr() + "?ca=" + strange.CAFile, true, "not trusted"},
		{"another name", "etcds", encrypted.Addr() + both + "&server-name=elsewhere", true, "not trusted"},
		{"TLS to a plain port", "etcds", plain.Addr(), false, "TLS"},
		{"nobody there", "etcd", nobody, false, "cannot be reached"},
		{"nobody says a word", "etcd", silent, false, "cannot be reached|does not answer"},
	} {
		for _, user := range []string{"", "me:secret@"} {
			t.Run(test.name+strings.TrimSuffix(user, ":secret@"), func(t *testing.T) {
				t.Parallel() // some take as long as an answer may
				err := openError(t, test.scheme+"://"+user+test.at)
				checkFault(t, err, test.final)
				if !regexp.MustCompile(test.says).MatchString(err.Error()) {
					t.Errorf("%v, which does not say %q", err, test.says)
				}
				if test.at != silent && regexp.MustCompile("(?i)deadline ?exceeded").MatchString(err.Error()) {
					t.Errorf("%v, which it could have said at once", err)
				}
			})
		}
	}
	t.Run("no certificate", func(t *testing.T) {
		err := openError(t, "etcds://"+encrypted.Addr()+authority)
		// The server's alert may be overtaken by the end of the connection. Then nobody can know more.
		checkFault(t, err, strings.Contains(err.Error(), "TLS was refused"))
	})
	t.Run("plain to a TLS port", func(t *testing.T) {
		err := openError(t, "etcd://"+encrypted.Addr())
		checkFault(t, err, false)
		// Nor here.
		if !strings.Contains(err.Error(), "does it speak TLS") && !strings.Contains(err.Error(), "reset by peer") {
			t.Errorf("%v, which does not say what may be wrong", err)
		}
	})
	for _, test := range []struct{ name, user, says string }{
		{"no password", "", "it wants a user and a password"},
		{"wrong password", "root:secret@", "user or password is wrong"},
		{"wrong user", "me:secret@", "user or password is wrong"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			checkFault(t, openError(t, "etcd://"+test.user+protected.Addr()), true, test.says)
		})
	}
}

// Not even opening a store hangs for longer than its context.
func TestOpenEndsWithContext(t *testing.T) {
	silent := testkit.Silent(t)
	for _, user := range []string{"", "me:secret@"} {
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		began := time.Now()
		if _, err := store.Open(ctx, testkit.Locate(t, "etcd://"+user+silent)); !errors.Is(err,
			context.DeadlineExceeded) {
			t.Errorf("%v, want %v", err, context.DeadlineExceeded)
		}
		if took := time.Since(began); took > 2*time.Second {
			t.Errorf("it took %v", took)
		}
		cancel()
		if _, err := store.Open(ctx, testkit.Locate(t, "etcd://"+user+testkit.Nobody(t))); !errors.Is(err, ctx.Err()) {
			t.Errorf("with a context that is done: %v", err)
		}
	}
}

// Through holdfast.Open, the error has the masked URL.
func TestOpenMasksPassword(t *testing.T) {
	server := servers.Etcd(t, servers.Password("open sesame"))
	testkit.CheckMasked(t, "etcd://me:secret@"+server.Addr())
}

func TestURLs(t *testing.T) {
	testkit.RefuseURLs(t, map[string]string{
		"etcd://me:secret@127.0.0.1?password-file=/x": "a user without a password",
		"etcd://127.0.0.1?password-file=/x":           "a user without a password",
		"etcd://":                                     "one host or more",
		"etcd://127.0.0.1/path":                       "has no path",
		"etcd://127.0.0.1,/":                          "malformed",
		"etcd://127.0.0.1:1:2":                        "malformed",
		"etcd://127.0.0.1?db=1":                       "unknown parameter",
		"etcd://127.0.0.1?ca=x":                       "unknown parameter",
		"etcd://127.0.0.1?tll=10s":                    "unknown parameter",
		"etcds://127.0.0.1?ca=x&ca=y":                 "2 times",
		"etcd://me@127.0.0.1":                         "go together",
		"etcd://me:@127.0.0.1":                        "go together",
		"etcd://:secret@127.0.0.1":                    "go together",
		"etcd://127.0.0.1?ttl=0":                      "positive duration",
		"etcd://127.0.0.1?ttl=0s":                     "positive duration",
		"etcd://127.0.0.1?ttl=-1s":                    "positive duration",
		"etcd://127.0.0.1?ttl=10":                     "positive duration",
		"etcd://127.0.0.1?ttl=1000h":                  "from a second to 168h0m0s",
		"etcd://127.0.0.1?prefix=%00":                 "prefix",
		"etcds://127.0.0.1?ca=/nowhere":               "ca: ",
		"etcds://127.0.0.1?ca=/dev/null":              "no certificate",
		"etcds://127.0.0.1?cert=/dev/null":            "go together",
		"etcds://127.0.0.1?key=/dev/null":             "go together",
		"etcds://127.0.0.1?cert=/nowhere&key=/no":     "cert and key",
		"etcds://127.0.0.1?insecure-skip-verify=yes!": "insecure-skip-verify is",
	})
}

// Whoever hands in a client gives the same settings in Go.
func TestBadSettings(t *testing.T) {
	client := servers.Etcd(t).Client(t)
	for says, option := range map[string]etcdstore.Option{
		"not -1s":      etcdstore.WithTTL(-time.Second),
		"not 1000h0m":  etcdstore.WithTTL(1000 * time.Hour),
		"bad name":     etcdstore.WithPrefix("\x00"),
		"bad name: it": etcdstore.WithPrefix(strings.Repeat("p", store.MaxName+1)),
	} {
		if _, err := etcdstore.New(t.Context(), client, option); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%v, which does not say %q", err, says)
		}
	}
	done, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := etcdstore.New(done, client); !errors.Is(err, context.Canceled) {
		t.Errorf("with a context that is done: %v", err)
	}
}

// One member that is too old is enough: it may be the leader tomorrow.
func TestVersions(t *testing.T) {
	good := newFake(t, "3.7.3")
	for version, will := range map[string]bool{"3.4.30": false, "3.5.12": false, "3.5.13": true, "3.6.0": true,
		"3.7.3": true} {
		other := newFake(t, version)
		for _, hosts := range []string{other.addr(), good.addr() + "," + other.addr()} {
			if will {
				openAt(t, "etcd://"+hosts)
			} else {
				checkFault(t, openError(t, "etcd://"+hosts), true, other.addr()+" is etcd "+version,
					"3.5.13 is the oldest")
			}
		}
	}
}

// What a server answers a call with that cannot be served.
func TestRefusals(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		answer error
		final  bool
		says   string
	}{
		{rpctypes.ErrGRPCUserEmpty, true, "it wants a user and a password"},
		{rpctypes.ErrGRPCAuthFailed, true, "user or password is wrong"},
		{rpctypes.ErrGRPCUserNotFound, true, "does not know this user"},
		{rpctypes.ErrGRPCPermissionDenied, true, "lacks a permission"},
		{rpctypes.ErrGRPCNoSpace, false, "its database is full"},
		{rpctypes.ErrGRPCCorrupt, true, "corrupt"},
		{rpctypes.ErrGRPCNoLeader, false, "no leader"},
		{rpctypes.ErrGRPCNotLeader, false, "lost its leader"},
		{rpctypes.ErrGRPCLeaderChanged, false, "another leader"},
		{rpctypes.ErrGRPCTimeout, false, "did not come to a decision"},
		{rpctypes.ErrGRPCTimeoutDueToLeaderFail, false, "because it lost its leader"},
		{rpctypes.ErrGRPCTimeoutDueToConnectionLost, false, "members cannot reach each other"},
		{rpctypes.ErrGRPCRequestTooManyRequests, false, "overloaded"},
		{rpctypes.ErrGRPCNotSupportedForLearner, true, "a learner"},
		{rpctypes.ErrGRPCStopped, false, "cannot be reached"},
		{status.Error(codes.Unimplemented, "unknown service etcdserverpb.KV"), false, "it refused"},
	} {
		t.Run(status.Convert(test.answer).Message(), func(t *testing.T) {
			t.Parallel()
			f := newFake(t, "3.7.3")
			s := openAt(t, "etcd://"+f.addr())
			f.refuses(test.answer)
			for name, call := range testkit.Calls(s, claim("name")) {
				t.Run(name, func(t *testing.T) { checkFault(t, call(t.Context()), test.final, test.says) })
			}
			t.Run("Open", func(t *testing.T) { checkFault(t, openError(t, "etcd://"+f.addr()), test.final, test.says) })
		})
	}
}

// A server that takes every request and never answers.
func TestSilentServer(t *testing.T) {
	f := newFake(t, "3.7.3")
	s := openAt(t, "etcd://"+f.addr())
	f.refuses(errSilence)
	c := claim("silent")
	c.TTL = 200 * time.Millisecond
	testkit.CheckSilent(t, s, c, "etcd at 127.0.0.1:", "no response in 200ms")
}

func TestClosedStore(t *testing.T) {
	_, s := newServer(t, "")
	testkit.CheckClosed(t, s, testkit.Held(t, s, claim("held")))
}
