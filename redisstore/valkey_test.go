package redisstore_test

import (
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/internal/servers"
	"github.com/holdfast-go/holdfast/internal/testkit"
	"github.com/holdfast-go/holdfast/store/storetest"
)

// Valkey keeps locks as Redis does: alone, in plain mode, watched by sentinels, and as a cluster of three masters with
// a replica each, of which one is killed. Some rules are enough here: the whole suite runs against Redis.
func TestStoreOnValkey(t *testing.T) {
	t.Parallel()
	for name, start := range map[string]func(testing.TB) storetest.Harness{
		"one server": func(t testing.TB) storetest.Harness {
			h := newHarness(t, servers.Valkey())
			h.url = asValkey(h.url)
			return h
		},
		"plain mode": func(t testing.TB) storetest.Harness {
			h := newPlainHarness(t, servers.Valkey())
			h.url = asValkey(h.url)
			return h
		},
		"sentinels": func(t testing.TB) storetest.Harness {
			f := newSentinelHarness(t, calm, servers.Valkey())
			f.url = asValkey(f.url)
			return f
		},
		"cluster": func(t testing.TB) storetest.Harness {
			f := newClusterHarness(t, servers.Valkey())
			f.url = asValkey(f.url)
			return f
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			storetest.RunSome(t, start, "exclusion", "order", "floor")
		})
	}
}

// asValkey is a URL of Redis with the scheme of Valkey.
func asValkey(url string) string { return strings.Replace(url, "redis", "valkey", 1) }

// Every scheme of Redis has one of Valkey, which leads to the same store whatever the server is.
func TestValkeySchemes(t *testing.T) {
	t.Parallel()
	certificates := servers.NewCertificates(t)
	plain, encrypted := servers.Redis(t, servers.Valkey()), servers.Redis(
		t,
		servers.Valkey(),
		servers.TLS(certificates),
	)
	for _, url := range []string{
		"redis://" + plain.Addr(),
		"redis+unix://" + plain.Socket() + "?db=0",
		"rediss://" + encrypted.Addr() + "?ca=" + certificates.CAFile,
	} {
		redis, valkey := openAt(t, url), openAt(t, asValkey(url))
		testkit.CheckWorks(t, valkey)
		if a, b := redis.Abilities(), valkey.Abilities(); a.Identity != b.Identity || b.Store != asValkey(a.Store) {
			t.Errorf("%s: %q is %q, and %q is %q", url, a.Store, a.Identity, b.Store, b.Identity)
		}
	}
	testkit.RefuseURLs(t, map[string]string{
		"valkey://a,b":                       "as in valkey://",
		"valkeys://127.0.0.1?ca=/nowhere":    "ca: ",
		"valkeys+cluster://h?ca=/nowhere":    "ca: ",
		"valkeys+sentinel://h/n?ca=/nowhere": "ca: ",
		"valkey://127.0.0.1?ca=x":            "unknown parameter",
		"valkey+unix:path":                   "write valkey+unix:///",
		"valkey+cluster://127.0.0.1/1":       "write valkey+cluster://",
		"valkey+sentinel://127.0.0.1":        "write valkey+sentinel://",
	})
}
