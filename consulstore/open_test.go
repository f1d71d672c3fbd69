package consulstore_test

import (
	"context"
	"crypto/tls"
	"errors"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/consulstore"
	"github.com/holdfast-go/holdfast/internal/servers"
	"github.com/holdfast-go/holdfast/internal/testkit"
	"github.com/holdfast-go/holdfast/store"
)

// shortTTL is a parameter for the servers of the tests.
const shortTTL = "?ttl=5s"

// demandsCertificate has a server with TLS refuse clients that have no certificate.
var demandsCertificate = servers.Args("-hcl", "tls { https { verify_incoming = true } }")

// claimOf is a claim to everything of a name.
func claimOf(name string) store.Claim { return testkit.Claim(name, sessionTTL) }

// checkFault is testkit.CheckFault for a fault that names an agent of this machine, and has nothing of net/http's URL.
func checkFault(t testing.TB, err error, final bool, words ...string) {
	t.Helper()
	testkit.CheckFault(t, err, final, append(words, "consul at 127.0.0.1:")...)
	if err != nil && (strings.Contains(err.Error(), "/v1/") || strings.Contains(err.Error(), "http://consul")) {
		t.Errorf("%v, which has the URL of a request", err)
	}
}

func TestConnections(t *testing.T) {
	t.Parallel()
	certificates := servers.NewCertificates(t)
	encrypted := servers.Consul(t, servers.TLS(certificates))
	strict := servers.Consul(t, servers.TLS(certificates), demandsCertificate)
	open := servers.Consul(t)
	at := "consul://" + open.Addr() + shortTTL
	authority := "&ca=" + certificates.CAFile
	own := "&cert=" + certificates.CertFile + "&key=" + certificates.KeyFile
	for name, raw := range map[string]string{
		"a server":                at,
		"a slash":                 "consul://" + open.Addr() + "/" + shortTTL,
		"a socket":                "consul://" + open.Socket() + shortTTL,
		"a token that is ignored": "consul://:secret@" + open.Addr() + shortTTL,
		"TLS":                     "consuls://" + encrypted.Addr() + shortTTL + authority,
		"TLS by another name":     "consuls://" + encrypted.Addr() + shortTTL + authority + "&server-name=localhost",
		"TLS without checking":    "consuls://" + encrypted.Addr() + shortTTL + "&insecure-skip-verify=true",
		"TLS with a certificate":  "consuls://" + strict.Addr() + shortTTL + authority + own,
		"one of two agents":       "consul://" + testkit.Nobody(t) + "," + open.Addr() + shortTTL,
		"one of two, with TLS":    "consuls://" + testkit.Nobody(t) + "," + encrypted.Addr() + shortTTL + authority,
		"the agent's datacenter":  at + "&datacenter=dc1",
		"a node":                  at + "&node=another",
		"the agent's own node":    at + "&node=" + open.Name(),
		"an odd prefix":           at + "&prefix=" + url.QueryEscape("{a/b}*\n%. ü~"),
		"the longest prefix":      at + "&prefix=" + strings.Repeat("p", store.MaxName),
		"a prefix of dots":        at + "&prefix=..",
	} {
		t.Run(name, func(t *testing.T) { testkit.CheckWorks(t, testkit.Open(t, raw)) })
	}
}

// openError is testkit.OpenError in a goroutine that is not the test's own, which can't end the test.
func openError(t *testing.T, url string) error {
	t.Helper()
	s, err := store.Open(t.Context(), testkit.Locate(t, url))
	if err == nil {
		s.Close()
	}
	return err
}

func TestOpenFaults(t *testing.T) {
	t.Parallel()
	plain := servers.Consul(t)
	certificates, strange := servers.NewCertificates(t), servers.NewCertificates(t)
	encrypted := servers.Consul(t, servers.TLS(certificates))
	strict := servers.Consul(t, servers.TLS(certificates), demandsCertificate)
	nobody, silent := testkit.Nobody(t), testkit.Silent(t)
	authority := "&ca=" + certificates.CAFile
	for _, test := range []struct {
		name, scheme, at string
		final            bool
		says             string
	}{
		{"nobody there", "consul", nobody + shortTTL, false, "cannot be reached"},
		{"nobody at two addresses", "consul", nobody + "," + testkit.Nobody(t) + shortTTL, false, "cannot be reached"},
		{"no response", "consul", silent + shortTTL, false, "no response in"},
		{"no response to TLS", "consuls", silent + shortTTL, false, "no response in"},
		{"an unknown authority", "consuls", encrypted.Addr() + shortTTL, true, "certificate"},
		{"another authority", "consuls", encrypted.Addr() + shortTTL + "&ca=" + strange.CAFile, true, "certificate"},
		{"another name", "consuls", encrypted.Addr() + shortTTL + authority + "&server-name=elsewhere", true,
			"certificate"},
		{"no certificate", "consuls", strict.Addr() + shortTTL + authority, true, "certificate"},
		{"TLS to a plain port", "consuls", plain.Addr() + shortTTL, true, "does not speak TLS"},
		{"plain to a TLS port", "consul", encrypted.Addr() + shortTTL, true, "consuls://"},
		{"no such datacenter", "consul", plain.Addr() + shortTTL + "&datacenter=nowhere", false,
			"No path to datacenter"},
		{"a namespace", "consul", plain.Addr() + shortTTL + "&namespace=team", true, "Enterprise"},
		{"a ttl that is too short", "consul", plain.Addr() + "?ttl=100ms", true, "session_ttl_min"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel() // some take as long as a response may
			began := time.Now()
			var opening sync.WaitGroup
			for _, token := range []string{"", ":secret@"} {
				opening.Go(
					func() { checkFault(t, openError(t, test.scheme+"://"+token+test.at), test.final, test.says) },
				)
			}
			opening.Wait()
			if took := time.Since(began); took > 15*time.Second {
				t.Errorf("it took %v", took)
			}
		})
	}
}

// With Consul's own setting a session has 10 seconds or more, and the error says so.
func TestShortestTTL(t *testing.T) {
	t.Parallel()
	server := servers.Consul(t, servers.OwnTimeouts())
	checkFault(t, testkit.OpenError(t, "consul://"+server.Addr()+"?ttl=9999ms"), true, "10s or more", "session_ttl_min")
	testkit.CheckWorks(t, testkit.Open(t, "consul://"+server.Addr()+"?ttl=10s"))
}

// An error names the socket.
func TestNoSocket(t *testing.T) {
	t.Parallel()
	err := testkit.OpenError(t, "consul://:secret@/nowhere/consul.sock")
	testkit.CheckFault(t, err, false, "consul at /nowhere/consul.sock", "cannot be reached")
}

// Not even opening a store takes longer than its context.
func TestOpenEndsWithContext(t *testing.T) {
	t.Parallel()
	for _, addr := range []string{testkit.Silent(t), testkit.Nobody(t) + "," + testkit.Silent(t)} {
		for _, scheme := range []string{"consul://", "consuls://", "consul://:secret@"} {
			testkit.CheckOpenEnds(t, scheme+addr)
		}
	}
}

// Through holdfast.Open, the error has the masked URL.
func TestOpenMasksToken(t *testing.T) {
	t.Parallel()
	testkit.CheckMasked(t, "consul://:secret@"+testkit.Nobody(t))
	testkit.CheckMasked(t, "consul://:secret@"+servers.Consul(t).Addr()+"?datacenter=nowhere")
}

func TestURLs(t *testing.T) {
	testkit.RefuseURLs(t, map[string]string{
		"consul://":                                      "the address of an agent",
		"consul:":                                        "the address of an agent",
		"consul:///":                                     "the address of an agent",
		"consul:agent.sock":                              "has that of a unix socket",
		"consul://127.0.0.1,/":                           "malformed",
		"consul://127.0.0.1:1:2":                         "malformed",
		"consul://127.0.0.1/secret":                      "no path after the host",
		"consul://127.0.0.1/secret/v1":                   "no path after the host",
		"consul://secret@127.0.0.1":                      "has no user",
		"consul://me:secret@127.0.0.1":                   "has no user",
		"consul://me:secret@/run/consul.sock":            "has no user",
		"consul://127.0.0.1?token=secret":                "unknown parameter",
		"consul://127.0.0.1?db=1":                        "unknown parameter",
		"consul://127.0.0.1?ca=x":                        "unknown parameter",
		"consul://127.0.0.1?tll=10s":                     "unknown parameter",
		"consuls://127.0.0.1?ca=x&ca=y":                  "2 times",
		"consul://:secret@127.0.0.1?token-file=/x":       "not in both",
		"consul://127.0.0.1?token-file=/nowhere/secret":  "token-file: the file cannot be read",
		"consul://127.0.0.1?ttl=0s":                      "positive duration",
		"consul://127.0.0.1?ttl=10":                      "positive duration",
		"consul://127.0.0.1?ttl=25h":                     "up to 24h0m0s",
		"consul://127.0.0.1?ttl=1500us":                  "whole milliseconds",
		"consul://127.0.0.1?mode=secret":                 "mode is queue or plain",
		"consul://127.0.0.1?prefix=%00":                  "prefix",
		"consuls://127.0.0.1?ca=/nowhere":                "ca: ",
		"consuls://127.0.0.1?ca=/dev/null":               "no certificate",
		"consuls://127.0.0.1?cert=/dev/null":             "go together",
		"consuls://127.0.0.1?cert=/nowhere&key=/no":      "cert and key",
		"consuls://127.0.0.1?insecure-skip-verify=maybe": "insecure-skip-verify is",
	})
}

// Settings in Go are checked as those of a URL are.
func TestBadSettings(t *testing.T) {
	none := []string{testkit.Nobody(t)}
	failing := func(context.Context) (string, error) { return testkit.Secret, errors.New("the vault is closed") }
	for _, test := range []struct {
		addresses []string
		option    consulstore.Option
		says      string
	}{
		{nil, consulstore.WithTTL(time.Minute), "the address of an agent"},
		{[]string{"unix:///a", "unix:///b"}, consulstore.WithTTL(time.Minute), "one unix socket"},
		{[]string{"unix:///a", none[0]}, consulstore.WithTTL(time.Minute), "one unix socket"},
		{none, consulstore.WithTTL(-time.Second), "not -1s"},
		{none, consulstore.WithTTL(time.Microsecond), "not 1µs"},
		{none, consulstore.WithTTL(25 * time.Hour), "not 25h0m0s"},
		{none, consulstore.WithPrefix("\x00"), "bad name"},
		{none, consulstore.WithCredentials(failing), "the vault is closed"},
		{none, consulstore.WithToken("secret\n"), "token"},
		{none, consulstore.WithTLS(&tls.Config{MinVersion: tls.VersionTLS13}), "cannot be reached"},
	} {
		_, err := consulstore.Open(t.Context(), test.addresses, test.option)
		if err == nil || !strings.Contains(err.Error(), test.says) || strings.Contains(err.Error(), testkit.Secret) {
			t.Errorf("%v, which does not say %q", err, test.says)
		}
	}
}

// The session's ttl is that of all locks: one can't ask for less, and one that asks for more has the session's.
func TestTTLOfLock(t *testing.T) {
	t.Parallel()
	testkit.CheckSessionTTL(t, testkit.Open(t, "consul://"+servers.Consul(t).Addr()+"?ttl=5s"), 5*time.Second)
}
