package redlock_test

import (
	"errors"
	"regexp"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/internal/servers"
	"github.com/holdfast-go/holdfast/internal/testkit"
	"github.com/holdfast-go/holdfast/redlock"
	"github.com/holdfast-go/holdfast/store"
)

// TestTLS has three masters that speak TLS, and only with who shows a certificate.
func TestTLS(t *testing.T) {
	t.Parallel()
	certificates, others := servers.NewCertificates(t), servers.NewCertificates(t)
	f := newFreshFleet(t, 3, servers.TLS(certificates), servers.Password("open sesame"),
		servers.Args("--tls-auth-clients", "yes"))
	at := func(query ...string) string {
		return "redlocks://:open%20sesame@" + strings.Join(f.addresses(), ",") + "?node-timeout=20s&" + strings.Join(
			query,
			"&",
		)
	}
	own := "cert=" + certificates.CertFile + "&key=" + certificates.KeyFile
	foreign := "cert=" + others.CertFile + "&key=" + others.KeyFile
	authority := "ca=" + certificates.CAFile
	_, err := redlock.Init(t.Context(), at(own, authority))
	testkit.Must(t, err)

	for name, query := range map[string][]string{
		"an authority":     {own, authority},
		"another name":     {own, authority, "server-name=localhost"},
		"without checking": {own, "insecure-skip-verify=true"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, err := redlock.Open(t.Context(), at(query...), redlock.WithLogger(silent))
			testkit.Must(t, err)
			defer s.Close()
			c := testkit.Held(t, s, claimOf(name))
			testkit.Keep(t, s, c, store.Held)
			testkit.Must(t, s.Leave(t.Context(), c))
			testkit.Await(t, "all vote", func() bool { return allVote(s.Health(t.Context())) })
		})
	}

	// A server that wants a certificate ends the connection when it is made already: who is faster, its alert or its
	// end, is chance. Whom we do not trust we name as such.
	untrusted, refused := regexp.MustCompile(`its certificate is not trusted`), regexp.MustCompile(
		`TLS was refused|it cannot be reached`,
	)
	for name, c := range map[string]struct {
		query []string
		want  *regexp.Regexp
	}{
		"a wrong authority":        {[]string{own, "ca=" + others.CAFile}, untrusted},
		"no authority":             {[]string{own}, untrusted},
		"a wrong name":             {[]string{own, authority, "server-name=elsewhere"}, untrusted},
		"no certificate":           {[]string{authority}, refused},
		"a certificate of another": {[]string{foreign, authority}, refused},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := redlock.Open(t.Context(), at(c.query...))
			fault, ok := errors.AsType[*store.Fault](err)
			if !ok || len(c.want.FindAllString(err.Error(), -1)) != 3 || strings.Contains(err.Error(), "sesame") {
				t.Errorf("%v\nwant a fault that says %q of each node and no password", err, c.want)
			}
			if c.want == untrusted && !fault.Final {
				t.Errorf("%v\nwhich is not final", err)
			}
		})
	}

	t.Run("without TLS", func(t *testing.T) {
		t.Parallel()
		plain := "redlock://:open%20sesame@" + strings.Join(f.addresses(), ",")
		if _, err := redlock.Open(t.Context(), plain); err == nil || strings.Contains(err.Error(), "sesame") {
			t.Error(err)
		}
	})
}
