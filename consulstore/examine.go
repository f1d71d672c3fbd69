package consulstore

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/internal/sessionserver"
	"github.com/holdfast-go/holdfast/store"
)

var _ store.Examiner = (*Store)(nil)

// examineWithin bounds an examination.
const examineWithin = 5 * time.Second

// defaultTTLMin is Consul's session_ttl_min if it is not set.
const defaultTTLMin = 10 * time.Second

// Examine implements store.Examiner.
func (s *Store) Examine(ctx context.Context) []store.Finding {
	ctx, cancel := context.WithTimeout(ctx, examineWithin)
	defer cancel()
	return s.consul.examine(ctx)
}

// examine returns the findings about the agent, the cluster and the token.
func (c *consul) examine(ctx context.Context) []store.Finding {
	var about struct { // what of /v1/agent/self matters here
		Config      struct{ Version string }
		DebugConfig struct{ SessionTTLMin string }
	}
	_, err := c.call(ctx, http.MethodGet, "/v1/agent/self", nil, nil, &about)
	all := []store.Finding{c.token(ctx), c.majority(ctx)}
	version := store.Finding{Check: "version", Found: "Consul " + about.Config.Version}
	least := store.Finding{Check: "session ttl", Found: fmt.Sprintf("the session has a ttl of %v", c.ttl)}
	if err != nil {
		version.Found = "not known: /v1/agent/self is refused (agent:read is not granted), which locks do not need"
	} else {
		floor, _ := time.ParseDuration(about.DebugConfig.SessionTTLMin)
		least.Found += fmt.Sprintf("; session_ttl_min is %v, and a dead holder's lock is free after one to two ttls",
			cmp.Or(floor, defaultTTLMin))
	}
	return append(all, version, least,
		store.Finding{Check: "clock", Found: "time is the session's, which the leader counts: no clock can be wrong"},
		c.space(ctx))
}

// token reports what the token is.
func (c *consul) token(ctx context.Context) store.Finding {
	f := store.Finding{Check: "permissions"}
	var token struct {
		Description string
		Policies    []struct{ Name string }
	}
	_, err := c.call(ctx, http.MethodGet, "/v1/acl/token/self", nil, nil, &token)
	switch {
	case err != nil && strings.Contains(err.Error(), "ACL support disabled"):
		f.Found = "ACLs are off; every client that reaches Consul can take locks away"
	case err != nil:
		f.Found = "the token may do what locks need; what else it may do cannot be read"
	default:
		var policies []string
		for _, p := range token.Policies {
			policies = append(policies, p.Name)
		}
		f.Found = fmt.Sprintf("the token %s has the policies %s, which allow what locks need",
			store.Quote(token.Description), store.Quote(strings.Join(policies, ", ")))
	}
	return f
}

// majority reports whether there is a leader, and how many servers there are.
func (c *consul) majority(ctx context.Context) store.Finding {
	f := store.Finding{Check: "majority"}
	var leader string
	var peers []string
	_, err := c.call(ctx, http.MethodGet, "/v1/status/leader", nil, nil, &leader)
	if err == nil {
		_, err = c.call(ctx, http.MethodGet, "/v1/status/peers", nil, nil, &peers)
	}
	n := len(peers)
	f.Found = fmt.Sprintf("%d servers, led by %s", n, leader)
	switch {
	case err != nil:
		f.Found = "which servers there are cannot be read: " + err.Error()
		sessionserver.Warn(&f, "whether a majority is there is not known", "run doctor again")
	case leader == "":
		f.Level, f.Found = store.Fail, fmt.Sprintf("%d servers, and no leader", n)
		f.Why = "without a leader no lock is granted or renewed"
		f.Fix = "start the servers that are away: consul operator raft list-peers"
	case n == 1:
		f.Found = "Consul has one server"
		sessionserver.Warn(&f, "while it is away no lock is granted or renewed",
			"run three servers or five in production")
	case n%2 == 0:
		sessionserver.Warn(&f, "an even number of servers survives no more failures than one fewer",
			"add a server or remove one")
	}
	var health struct {
		FailureTolerance int
		Servers          []struct {
			Name    string
			Healthy bool
		}
	}
	if _, err := c.call(ctx, http.MethodGet, "/v1/operator/autopilot/health", nil, nil, &health); err == nil {
		var ill []string
		for _, s := range health.Servers {
			if !s.Healthy {
				ill = append(ill, s.Name)
			}
		}
		if len(ill) > 0 && f.Level < store.Fail {
			f.Found += ", and not healthy: " + strings.Join(ill, ", ")
			sessionserver.Warn(&f, fmt.Sprintf("%d more may fail until no lock is granted", health.FailureTolerance),
				"consul operator autopilot state")
		}
	}
	return f
}

// space counts the keys of this tenant, and those that no session holds.
func (c *consul) space(ctx context.Context) store.Finding {
	f := store.Finding{Check: "keys", Found: "no keys of others lie where locks are kept"}
	if c.plain {
		f.Found = "locks are keys of their own names (mode=plain), which other programs may use too"
		return f
	}
	var entries []entry
	if _, err := c.list(ctx, c.keys.queues, url.Values{"recurse": {""}, "stale": {""}}, &entries); err != nil {
		f.Found = "the keys cannot be listed: " + err.Error()
		sessionserver.Warn(&f, "holdfast ls needs that; locks do not",
			"grant key_prefix \""+c.keys.queues+"\" { policy = \"write\" }")
		return f
	}
	var permanent []string
	for _, e := range entries {
		if e.Session == "" {
			permanent = append(permanent, e.Key)
		}
	}
	f.Found = fmt.Sprintf("%d keys below %s, all of them held by a session", len(entries), c.keys.queues)
	if len(permanent) > 0 {
		f.Found = fmt.Sprintf("%d keys below %s are held by no session, such as %s", len(permanent), c.keys.queues,
			store.Quote(permanent[0]))
		sessionserver.Warn(&f,
			"they were written by hand, or their session ended at this moment; such a key is not a claim, and stays",
			"run doctor again; if it stays: consul kv delete KEY")
	}
	return f
}
