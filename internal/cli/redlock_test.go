package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/servers"
	"github.com/holdfast-go/holdfast/redlock"
)

// masters are three servers of their own, with a password, and the query of their URL.
type masters struct {
	*testing.T
	servers []*servers.RedisServer
	query   string
}

const hush = "hush"

func newMasters(t *testing.T, options ...servers.Option) *masters {
	t.Helper()
	m := &masters{T: t, query: "?max-ttl=1m"}
	for range 3 {
		m.servers = append(m.servers, servers.Redis(t, append(options, servers.Password(hush))...))
	}
	return m
}

func (m *masters) url() string {
	var addrs []string
	for _, s := range m.servers {
		addrs = append(addrs, s.Addr())
	}
	return "redlock://:" + hush + "@" + strings.Join(addrs, ",") + m.query
}

// call runs a command about them, and demands the exit code, that the output matches, and that no password is shown.
func (m *masters) call(code int, out string, args ...string) result {
	m.Helper()
	r := bare(m.T, args...)
	if r.code != code || !regexp.MustCompile(out).MatchString(r.out) {
		m.Errorf("%v: exit code %d, want %d; %s\n%s\nwant\n%s", args[:2], r.code, code, r.errors, r.out, out)
	}
	if strings.Contains(r.out+r.errors, hush) {
		m.Errorf("the password is shown: %+v", r)
	}
	return r
}

// bare is call without a store.
func bare(t *testing.T, args ...string) result {
	t.Helper()
	var out, errs bytes.Buffer
	a := &app{stdin: strings.NewReader(""), stdout: &out, stderr: &errs}
	code := a.run(t.Context(), args)
	return result{code, out.String(), errs.String()}
}

const (
	anyNode = `127\.0\.0\.1:\d+ +`
	header  = `^NODE +STATE +MARK +TOOK +VERSION +REMARKS\n`
	voting  = anyNode + `voting +\d{16} +\S+ +\d+\.\d+\.\d+ *\n`
)

func TestRedlockInit(t *testing.T) {
	unsetStoreEnv(t)
	m := newMasters(t)
	fresh := anyNode + `fresh +\? .* it is new or has lost its data: no vote for 1m0s from its first use\n`
	r := m.call(exitStore, header+strings.Repeat(fresh, 3)+`0 of 3 nodes vote, and 2 are needed\.\n$`, "redlock", "status", m.url())
	if r.errors != "holdfast: nobody gets a lock: no majority of the nodes votes\n" {
		t.Errorf("%q", r.errors)
	}
	all := header + strings.Repeat(voting, 3) + `3 of 3 nodes vote, and 2 are needed\.\n$`
	m.call(0, all, "redlock", "init", m.url())
	m.call(0, all, "redlock", "status", m.url())
	m.call(0, all, "redlock", "init", m.url()) // again

	// By --store and by the environment.
	m.call(0, all, "--store", m.url(), "redlock", "status")
	t.Setenv(storeEnv, m.url())
	m.call(0, all, "redlock", "status")
	if r := bare(t, "run", "x", "--no-wait", "--", "nonesuch-command"); r.code != exitNoFile {
		t.Errorf("a run on this store: %+v", r)
	}

	// A node that has been in use, and belongs to another deployment, is not marked.
	other := strings.ReplaceAll(m.url(), "max-ttl=1m", "max-ttl=2m")
	if r := m.call(exitStore, `ill .*max-ttl`, "redlock", "init", other); !strings.Contains(r.errors, "max-ttl") {
		t.Errorf("%q", r.errors)
	}
	m.call(0, all, "redlock", "status")
}

func TestRedlockStatus(t *testing.T) {
	m := newMasters(t)
	m.call(0, "", "redlock", "init", m.url())
	first, second, third := m.servers[0], m.servers[1], m.servers[2]

	check(t, first.Restart(false))
	check(t, third.Kill())
	fresh, down := anyNode+`fresh +\?.*\n`, anyNode+`ill +\? +\S+ +\? +.*(refused|reached).*\n`
	m.call(exitStore, header+fresh+voting+down+"1 of 3 nodes vote, and 2 are needed", "redlock", "status", m.url())

	// With its data, but by another run.
	check(t, third.Start())
	quarantined := anyNode + `quarantined +\d{16} .* it was restarted or lost its data: no vote for (5\ds|1m0s)\n`
	m.call(exitStore, fresh+voting+quarantined, "redlock", "status", m.url())

	check(t, second.Pause())
	m.call(exitStore, fresh+anyNode+`ill .*no answer.*\n`+quarantined, "redlock", "status", m.url())
	check(t, second.Continue())

	var got struct {
		Store           string
		Votes, Majority int
		Nodes           []map[string]any
	}
	check(t, first.Kill())
	r := m.call(exitStore, "", "redlock", "status", "--json", m.url())
	check(t, json.Unmarshal([]byte(r.out), &got))
	if got.Votes != 1 || got.Majority != 2 || len(got.Nodes) != 3 || !strings.Contains(got.Store, "xxxxx@"+first.Addr()) {
		t.Errorf("%+v", got)
	}
	for i, state := range []string{"ill", "voting", "quarantined"} {
		n := got.Nodes[i]
		if n["address"] != m.servers[i].Addr() || n["state"] != state || (n["error"] != nil) != (state == "ill") {
			t.Errorf("%s: %v", state, n)
		}
		if wait, _ := n["wait_ms"].(float64); (wait > 50_000 && wait <= 60_000) != (state == "quarantined") {
			t.Errorf("%s: it waits for %v", state, n["wait_ms"])
		}
	}
	if mark, ok := got.Nodes[1]["mark"].(string); !ok || len(mark) != 16 {
		t.Errorf("%v", got.Nodes[1])
	}
}

// TestRedlockInitLetsNobodyBackIn has a node lose its data. Init must not take it for a new one: it may have granted a lock.
func TestRedlockInitLetsNobodyBackIn(t *testing.T) {
	m := newMasters(t)
	m.call(0, "", "redlock", "init", m.url())
	check(t, m.servers[0].Restart(false))
	r := m.call(0, header+anyNode+`(fresh|quarantined) .*\n`+voting+voting+"2 of 3", "redlock", "init", m.url())
	if r.errors != "holdfast: 2 of 3 nodes vote already, and so no other was marked; the others vote after max-ttl\n" {
		t.Errorf("%q", r.errors)
	}
	// Where none votes, they are taken for new on the operator's word.
	for _, s := range m.servers {
		check(t, s.Restart(false))
	}
	if r := m.call(0, header+strings.Repeat(voting, 3), "redlock", "init", m.url()); r.errors != "" {
		t.Errorf("%q", r.errors)
	}
}

func TestRedlockTrust(t *testing.T) {
	m := newMasters(t, servers.Args("--appendfsync", "always"))
	m.call(0, "", "redlock", "init", m.url())
	node := m.servers[1]
	m.call(0, `^trusted: `+regexp.QuoteMeta(node.Addr())+`, if it is restarted within (9m5\ds|10m0s)\n$`, "redlock", "trust", m.url(), node.Addr())
	m.call(0, voting+anyNode+`voting .* a restart within (9m5\ds|10m0s) is trusted\n`+voting, "redlock", "status", m.url())
	check(t, node.Restart(true))
	m.call(0, voting+voting+voting, "redlock", "status", m.url())
	check(t, node.Restart(true)) // it was for one
	m.call(0, voting+anyNode+`quarantined .*\n`+voting, "redlock", "status", m.url())

	check(t, node.Kill())
	if r := m.call(exitStore, `^$`, "redlock", "trust", m.url(), node.Addr()); !strings.Contains(r.errors, node.Addr()) {
		t.Errorf("%q", r.errors)
	}
	if r := m.call(exitUsage, `^$`, "redlock", "trust", m.url(), "h9"); !strings.Contains(r.errors, "h9") {
		t.Errorf("%q", r.errors)
	}
}

// TestWrongUseOfRedlock is TestWrongUse for these commands.
func TestWrongUseOfRedlock(t *testing.T) {
	unsetStoreEnv(t)
	for _, c := range []struct{ args, says string }{
		{"redlock", "status, or init, trust"},
		{"redlock nonsense", "is not known"},
		{"redlock status", "which nodes"},
		{"redlock init", "which nodes"},
		{"redlock init redlock://h1,h2,h3 h4", "one URL"},
		{"redlock status redlock://:hush@h1,h2", "3 nodes"},
		{"redlock init redlock://:hush@h1,h2,h3,h4", "odd"},
		{"redlock init redlock://:hush@h1,h2,h3?max-ttl=soon", "max-ttl"},
		{"redlock status redlock://:hush@h1,h2,h3?maxttl=3s", "which has allow, max-ttl"},
		{"redlock status redis://:hush@h1", "no nodes"},
		{"redlock status h1,h2,h3", "scheme"},
		{"redlock trust", "which node"},
		{"redlock trust redlock://h1,h2,h3", "which node"},
		{"redlock trust h1 h2 h3", "which node"},
		{"redlock trust h1", "which nodes"},
		{"redlock trust redlock://h1,h2,h3 redlock:hush@h1", "which node"},
		{"redlock redlock://:hush@h1,h2,h3", "is not known"},
		{"redlock trust redlock://:hush@h1,h2,h3 h4", "h4"},
	} {
		t.Run(c.args, func(t *testing.T) {
			r := bare(t, strings.Fields(c.args)...)
			if r.code != exitUsage || !strings.Contains(r.errors, c.says) || strings.Contains(r.errors, hush) {
				t.Errorf("exit code %d, %q", r.code, r.errors)
			}
			if !strings.HasPrefix(r.errors, "holdfast: ") || strings.Count(r.errors, "\n") != 1 || r.out != "" {
				t.Errorf("not one line: %q, %q", r.errors, r.out)
			}
		})
	}
}

// TestNodesForPeople checks what the table says of nodes that are hard to bring about, and that it does nothing to a terminal.
func TestNodesForPeople(t *testing.T) {
	for _, c := range []struct {
		node redlock.NodeHealth
		want string
	}{
		{redlock.NodeHealth{State: redlock.Voting, Took: 1234567, Version: "7.4.1", Mark: 7}, "h1  voting  7  1ms  7.4.1"},
		{redlock.NodeHealth{State: redlock.NeedsMark}, "needs mark  ?  0s  ?  the next lock gives it its vote back"},
		{redlock.NodeHealth{State: redlock.Voting, Ahead: 3 * time.Second}, "its clock is 3s ahead"},
		{redlock.NodeHealth{State: redlock.Voting, Ahead: -90 * time.Minute}, "its clock is 1h30m0s behind"},
		{redlock.NodeHealth{State: redlock.Voting, Doubts: []string{"it has 1 replica", "it may evict"}}, "it has 1 replica; it may evict"},
		{redlock.NodeHealth{Err: errors.New("evil\x1b[2J\ntext")}, `evil\u001b[2J text`},
		{redlock.NodeHealth{Version: "7\x1b[2J"}, `"7\x1b[2J"`},
	} {
		c.node.Address = "h1"
		var out bytes.Buffer
		check(t, writeNodes(&out, []redlock.NodeHealth{c.node}))
		line := strings.Split(out.String(), "\n")[1]
		squeezed := regexp.MustCompile(`  +`).ReplaceAllString(line, "  ")
		if !strings.Contains(squeezed, c.want) || strings.Contains(out.String(), "\x1b") {
			t.Errorf("%q, want %q", squeezed, c.want)
		}
	}
}
