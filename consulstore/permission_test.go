package consulstore_test

import (
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/consulstore"
	"github.com/holdfast-go/holdfast/internal/servers"
	"github.com/holdfast-go/holdfast/internal/testkit"
	"github.com/holdfast-go/holdfast/store"
)

// management is the token that may do everything.
const management = "a3c0ffee-0000-4000-8000-00000000cafe"

// guarded starts a server that denies what no policy allows.
func guarded(t testing.TB) *servers.ConsulServer {
	t.Helper()
	return servers.Consul(t, servers.Password(management))
}

// tokenFor makes a token that may do what the rules say.
func tokenFor(t testing.TB, server *servers.ConsulServer, rules ...string) string {
	t.Helper()
	token, err := server.Token(t.Context(), strings.Join(rules, "\n"))
	testkit.Must(t, err)
	return token
}

// urlAs returns the URL of a server with this token.
func urlAs(server *servers.ConsulServer, token string) string {
	return "consul://:" + token + "@" + server.Addr() + shortTTL
}

// deleteToken makes a token unknown to Consul.
func deleteToken(t testing.TB, server *servers.ConsulServer, token string) {
	t.Helper()
	var all []struct{ AccessorID, SecretID string }
	testkit.Must(t, server.Call(t.Context(), http.MethodGet, "/v1/acl/tokens", nil, &all))
	for _, known := range all {
		if known.SecretID == token {
			testkit.Must(t, server.Call(t.Context(), http.MethodDelete, "/v1/acl/token/"+known.AccessorID, nil, nil))
			return
		}
	}
	t.Fatal("there is no such token")
}

// registerNode does what the package's documentation tells an administrator to do.
func registerNode(t testing.TB, server *servers.ConsulServer) {
	t.Helper()
	text, err := os.ReadFile("doc.go")
	testkit.Must(t, err)
	found := regexp.MustCompile(`curl -X PUT -d '(\S+)' http://\S+?(/v1/\S+)`).FindSubmatch(text)
	if found == nil {
		t.Fatal("doc.go does not say how the node is registered")
	}
	body := map[string]string{}
	for _, field := range regexp.MustCompile(`"(\w+)":"([^"]+)"`).FindAllSubmatch(found[1], -1) {
		body[string(field[1])] = string(field[2])
	}
	testkit.Must(t, server.Call(t.Context(), http.MethodPut, string(found[2]), body, nil))
}

// smallestPolicy returns the rules of the package's documentation, and for each the permission that is missing without
// it. They are for the prefix P, or for none.
func smallestPolicy(t testing.TB, prefix string) (rules []string, permissions map[string]string) {
	t.Helper()
	text, err := os.ReadFile("doc.go")
	testkit.Must(t, err)
	rule := regexp.MustCompile(`//\t((key_prefix|session|node) +"\S+" +\{ policy = "(\w+)" \})`)
	permissions = map[string]string{}
	for _, match := range rule.FindAllSubmatch(text, -1) {
		rule, resource := string(match[1]), strings.TrimSuffix(string(match[2]), "_prefix")
		if prefix == "" {
			rule = strings.Replace(rule, "tenant/P/", "", 1)
		}
		rules = append(rules, rule)
		permissions[rule] = resource + ":" + string(match[3])
	}
	if len(rules) != 3 {
		t.Fatalf("doc.go has the rules %q", rules)
	}
	return rules, permissions
}

// The policy of the documentation is enough for everything. Without any of its rules the store can't be opened, and the
// error names the permission that is missing. The one to register the node can be left out once the node is there.
func TestSmallestPolicy(t *testing.T) {
	t.Parallel()
	for name, prefix := range map[string]string{"without a prefix": "", "with a prefix": "P"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := guarded(t)
			rules, permissions := smallestPolicy(t, prefix)
			open := func(rules []string) string {
				return urlAs(server, tokenFor(t, server, rules...)) + "&prefix=" +
					prefix
			}
			node := slices.IndexFunc(rules, func(rule string) bool { return strings.HasPrefix(rule, "node ") })
			without := func(i int) []string { return slices.Delete(slices.Clone(rules), i, i+1) }
			for i, rule := range rules {
				if i != node { // TestNodeRegisteredBeforehand does without that
					checkFault(t, testkit.OpenError(t, open(without(i))), true,
						"lacks permission '"+permissions[rule]+"'")
				}
			}
			if !strings.Contains(rules[node], consulstore.DefaultNode) {
				t.Errorf("the rule is %s", rules[node])
			}
			for _, rules := range [][]string{rules, without(node)} {
				s := testkit.Open(t, open(rules))
				testkit.CheckWorks(t, s)
				checkDetaches(t, s)
			}
		})
	}
}

// checkDetaches detaches a claim, attaches it, and releases it once as it is detached again.
func checkDetaches(t testing.TB, s store.Store) {
	t.Helper()
	c := testkit.Held(t, s, claimOf("passed"))
	as, attached, last := claimOf("passed"), claimOf("passed"), claimOf("passed")
	attached.Ticket, last.Ticket = c.Ticket, c.Ticket
	testkit.Detach(t, s, c, as.ID)
	testkit.Attach(t, s, attached, as.ID)
	testkit.Detach(t, s, attached, last.ID)
	testkit.Leave(t, s, last)
	testkit.CheckLength(t, s, "passed", 0)
}

// Without the permission to register the node, it must be there.
func TestNodeRegisteredBeforehand(t *testing.T) {
	t.Parallel()
	server := guarded(t)
	rules, _ := smallestPolicy(t, "")
	rules = slices.DeleteFunc(rules, func(rule string) bool { return strings.HasPrefix(rule, "node ") })
	raw := urlAs(server, tokenFor(t, server, rules...))
	checkFault(t, testkit.OpenError(t, raw), true, "lacks permission 'node:write'", consulstore.DefaultNode)
	registerNode(t, server)
	testkit.CheckWorks(t, testkit.Open(t, raw))
}

// A tenant's token opens no other tenant, nor the store without a prefix.
func TestPolicyOfTenant(t *testing.T) {
	t.Parallel()
	server := guarded(t)
	rules, _ := smallestPolicy(t, "P")
	raw := urlAs(server, tokenFor(t, server, rules...))
	for _, prefix := range []string{"", "&prefix=Q", "&prefix=P/", "&prefix=PP"} {
		checkFault(t, testkit.OpenError(t, raw+prefix), true, "lacks permission 'key:write'")
	}
}

// What a token may not do is said by the calls that need it.
func TestPermissions(t *testing.T) {
	t.Parallel()
	server := guarded(t)
	registerNode(t, server)
	const sessions = `session "holdfast" { policy = "write" }`
	const noIdentity = `key "holdfast/id" { policy = "deny" }`
	all := []string{`key_prefix "holdfast/" { policy = "write" }`, sessions}
	for name, test := range map[string]struct{ token, says string }{
		"no token":          {"", "anonymous token lacks permission"},
		"a token of nobody": {unknownToken, "does not know the token"},
		"keys can be read": {tokenFor(t, server, `key_prefix "holdfast/" { policy = "read" }`, sessions),
			"'key:write'"},
		"sessions can be read": {tokenFor(t, server, all[0], `session "holdfast" { policy = "read" }`),
			"'session:write'"},
		"another node's": {tokenFor(t, server, all[0], `session "elsewhere" { policy = "write" }`),
			"'session:write'"},
		"the identity is taken": {tokenFor(t, server, append(all, noIdentity)...), "'key:write'"},
	} {
		t.Run(name, func(t *testing.T) {
			checkFault(t, testkit.OpenError(t, urlAs(server, test.token)), true, test.says)
		})
	}
	// A queue that may only be read, or not even that.
	for policy, says := range map[string]string{"read": "'key:write'", "deny": "'key:write'"} {
		line := consulstore.LineOf("closed")
		token := tokenFor(t, server, append(all, `key_prefix "`+line+`" { policy = "`+policy+`" }`)...)
		s := testkit.Open(t, urlAs(server, token))
		_, err := s.Join(t.Context(), claimOf("closed"))
		checkFault(t, err, true, says, line)
		testkit.CheckWorks(t, s)
	}
}

// The permissions of a token are taken away while a lock is held. Every call says so, and goes on when they are back.
func TestPermissionTakenAway(t *testing.T) {
	t.Parallel()
	server := guarded(t)
	registerNode(t, server)
	token := tokenFor(
		t,
		server,
		`key_prefix "holdfast/" { policy = "write" }`,
		`session "holdfast" { policy = "write" }`,
	)
	s := testkit.Open(t, urlAs(server, token))
	held := testkit.Held(t, s, claimOf("mine"))
	deleteToken(t, server, token)
	for name, call := range testkit.Calls(s, held) {
		t.Run(name, func(t *testing.T) { checkFault(t, call(t.Context()), true, "does not know the token") })
	}
}

// Tenants with a node each can't end each other's sessions.
func TestTenantsWithNodes(t *testing.T) {
	t.Parallel()
	server := guarded(t)
	open := func(tenant string) (url string, rules []string) {
		rules = []string{
			`key_prefix "holdfast/tenant/` + tenant + `/" { policy = "write" }`,
			`session "holdfast-` + tenant + `" { policy = "write" }`, `node "holdfast-` + tenant +
				`" { policy = "write" }`,
		}
		return urlAs(server, tokenFor(t, server, rules...)) + "&prefix=" + tenant + "&node=holdfast-" + tenant, rules
	}
	one, rules := open("one")
	other, _ := open("other")
	testkit.CheckWorks(t, testkit.Open(t, one))
	testkit.CheckWorks(t, testkit.Open(t, other))
	stranger := urlAs(server, tokenFor(t, server, rules...)) + "&prefix=one&node=holdfast-other"
	checkFault(t, testkit.OpenError(t, stranger), true, "lacks permission 'session:write'", "holdfast-other")
}

// In plain mode the keys of the locks come to the smallest policy. Without a rule for them the lock is an error that
// names the permission.
func TestPolicyOfPlainMode(t *testing.T) {
	t.Parallel()
	server := guarded(t)
	rules, _ := smallestPolicy(t, "")
	token := tokenFor(t, server, append(rules, `key_prefix "jobs/" { policy = "write" }`)...)
	s := testkit.Open(t, urlAs(server, token)+"&mode=plain")
	testkit.Leave(t, s, testkit.Held(t, s, claimOf("jobs/report")))
	_, err := s.Join(t.Context(), claimOf("other/report"))
	if err == nil || !regexp.MustCompile(`lacks permission 'key:\w+' on "other/report"`).MatchString(err.Error()) {
		t.Errorf("%v, which does not say what is missing", err)
	}
}
