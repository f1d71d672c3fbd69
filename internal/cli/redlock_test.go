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

// call runs a command about them, and demands the exit code, that stdout and stderr match, and that no password is
// shown.
func (m *masters) call(code int, out, errors string, args ...string) result {
	m.Helper()
	r := bare(m.T, args...)
	r.want(m, code, out, errors)
	if strings.Contains(r.out+r.errors, hush) {
		m.Errorf("the password is shown: %+v", r)
	}
	return r
}

const (
	anyNode = `127\.0\.0\.1:\d+ +`
	header  = `^NODE +STATE +MARK +TOOK +VERSION +REMARKS\n`
	voting  = anyNode + `voting +\d{16} +\S+ +\d+\.\d+\.\d+ *\n`
)

// TestAcquireUnsupported: where locks cannot outlive their holders, acquire exits with 64.
func TestAcquireUnsupported(t *testing.T) {
	m := newMasters(t)
	_, err := redlock.Init(t.Context(), m.url())
	check(t, err)
	m.call(exitUsage, nothing, `redlock at .*: not supported by this store: it has no detached leases`,
		"--store="+m.url(), "acquire", "x", "--for", "20s")
}

func TestRedlockInit(t *testing.T) {
	unsetStoreEnv(t)
	m := newMasters(t)
	fresh := anyNode + `fresh +\? .* it is new or has lost its data: no vote for 1m0s from its first use\n`
	m.call(exitStore, header+strings.Repeat(fresh, 3)+`0 of 3 nodes vote, and 2 are needed\.\n$`,
		"^holdfast: no lock can be acquired: no majority of the nodes votes\n$", "redlock", "status", m.url())
	all := header + strings.Repeat(voting, 3) + `3 of 3 nodes vote, and 2 are needed\.\n$`
	m.call(0, all, "", "redlock", "init", m.url())
	m.call(0, all, "", "redlock", "status", m.url())
	m.call(0, all, "", "redlock", "init", m.url()) // again

	// By --store and by the environment.
	m.call(0, all, "", "--store", m.url(), "redlock", "status")
	t.Setenv(storeEnv, m.url())
	m.call(0, all, "", "redlock", "status")
	bare(t, "run", "x", "--no-wait", "--", "nonesuch-command").want(t, exitNoFile, "", "")

	// A node that has been in use, and belongs to another deployment, is not marked.
	other := strings.ReplaceAll(m.url(), "max-ttl=1m", "max-ttl=2m")
	m.call(exitStore, `failing .*max-ttl`, "max-ttl", "redlock", "init", other)
	m.call(0, all, "", "redlock", "status")
}

func TestRedlockStatus(t *testing.T) {
	m := newMasters(t)
	m.call(0, "", "", "redlock", "init", m.url())
	first, second, third := m.servers[0], m.servers[1], m.servers[2]

	check(t, first.Restart(false))
	check(t, third.Kill())
	fresh, down := anyNode+`fresh +\?.*\n`, anyNode+`failing +\? +\S+ +\? +.*(refused|reached).*\n`
	m.call(exitStore, header+fresh+voting+down+"1 of 3 nodes vote, and 2 are needed", "", "redlock", "status", m.url())

	// With its data, but by another run.
	check(t, third.Start())
	quarantined := anyNode + `quarantined +\d{16} .* it was restarted or lost its data: no vote for (5\ds|1m0s)\n`
	m.call(exitStore, fresh+voting+quarantined, "", "redlock", "status", m.url())

	check(t, second.Pause())
	m.call(exitStore, fresh+anyNode+`failing .*no response.*\n`+quarantined, "", "redlock", "status", m.url())
	check(t, second.Continue())

	var got struct {
		Store           string
		Votes, Majority int
		Nodes           []map[string]any
	}
	check(t, first.Kill())
	r := m.call(exitStore, "", "", "redlock", "status", "--json", m.url())
	check(t, json.Unmarshal([]byte(r.out), &got))
	if got.Votes != 1 || got.Majority != 2 || len(got.Nodes) != 3 ||
		!strings.Contains(got.Store, "xxxxx@"+first.Addr()) {
		t.Errorf("%+v", got)
	}
	for i, state := range []string{"failing", "voting", "quarantined"} {
		n := got.Nodes[i]
		if n["address"] != m.servers[i].Addr() || n["state"] != state || (n["error"] != nil) != (state == "failing") {
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

// TestRedlockInitAfterDataLoss: a node loses its data. Init must not mark it as if it were new: it may have granted a
// lock.
func TestRedlockInitAfterDataLoss(t *testing.T) {
	m := newMasters(t)
	m.call(0, "", "", "redlock", "init", m.url())
	check(t, m.servers[0].Restart(false))
	m.call(0, header+anyNode+`(fresh|quarantined) .*\n`+voting+voting+"2 of 3",
		"^holdfast: 2 of 3 nodes vote already, so none was marked; the others vote after max-ttl\n$",
		"redlock", "init", m.url())
	// If none votes, all are marked, since the operator declares that they are new.
	for _, s := range m.servers {
		check(t, s.Restart(false))
	}
	m.call(0, header+strings.Repeat(voting, 3), nothing, "redlock", "init", m.url())
}

func TestRedlockTrust(t *testing.T) {
	m := newMasters(t, servers.Args("--appendfsync", "always"))
	m.call(0, "", "", "redlock", "init", m.url())
	node := m.servers[1]
	m.call(0, `^trusted: `+regexp.QuoteMeta(node.Addr())+`, if it is restarted within (9m5\ds|10m0s)\n$`, "", "redlock",
		"trust", m.url(), node.Addr())
	m.call(0, voting+anyNode+`voting .* a restart within (9m5\ds|10m0s) is trusted\n`+voting, "", "redlock", "status",
		m.url())
	check(t, node.Restart(true))
	m.call(0, voting+voting+voting, "", "redlock", "status", m.url())
	check(t, node.Restart(true)) // it was for one
	m.call(0, voting+anyNode+`quarantined .*\n`+voting, "", "redlock", "status", m.url())

	check(t, node.Kill())
	m.call(exitStore, nothing, regexp.QuoteMeta(node.Addr()), "redlock", "trust", m.url(), node.Addr())
	m.call(exitUsage, nothing, "h9", "redlock", "trust", m.url(), "h9")
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
			r.complains(t, exitUsage, c.says)
			if strings.Contains(r.errors, hush) {
				t.Errorf("the password is shown: %q", r.errors)
			}
		})
	}
}

// TestNodesForPeople checks what the table says of nodes that are hard to bring about, and that it does nothing to a
// terminal.
func TestNodesForPeople(t *testing.T) {
	for _, c := range []struct {
		node redlock.NodeHealth
		want string
	}{
		{
			redlock.NodeHealth{State: redlock.Voting, Latency: 1234567, Version: "7.4.1", Mark: 7},
			"h1  voting  7  1ms  7.4.1",
		},
		{redlock.NodeHealth{State: redlock.Rejoining}, "rejoining  ?  0s  ?  it votes again with the next lock"},
		{redlock.NodeHealth{State: redlock.Voting, Ahead: 3 * time.Second}, "its clock is 3s ahead"},
		{redlock.NodeHealth{State: redlock.Voting, Ahead: -90 * time.Minute}, "its clock is 1h30m0s behind"},
		{
			redlock.NodeHealth{State: redlock.Voting, Warnings: []string{"it has 1 replica", "it may evict"}},
			"it has 1 replica; it may evict",
		},
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
