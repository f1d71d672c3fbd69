package main

import (
	"errors"
	"flag"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// sample is what three contestants on one site and one on another did in three rounds.
func sample() *results {
	on, elsewhere := &siteKind{name: "here"}, &siteKind{name: "elsewhere"}
	rounds := func(values ...float64) (ms []metrics) {
		for _, v := range values {
			if math.IsNaN(v) {
				ms = append(ms, nil)
				continue
			}
			ms = append(ms, metrics{throughput: v, cycleP50: 1000 / v})
		}
		return ms
	}
	w := &workload{
		Name:     "sample",
		About:    "made up",
		columns:  []metric{throughput, cycleP50},
		compared: []metric{throughput, cycleP50},
	}
	return &results{
		plan:  &plan{rounds: 3},
		sites: map[*siteKind]string{on: "a server"},
		cases: []*result{{w, []*row{
			{contestant: &contestant{name: "bottom", role: floor, on: on}, rounds: rounds(100, 1000, 100)},
			{contestant: &contestant{name: "we", role: ours, on: on}, rounds: rounds(50, 600, 70)},
			{contestant: &contestant{name: "slow", role: peer, on: on}, rounds: rounds(10, 10, 10)},
			{
				contestant: &contestant{name: "quick", role: peer, on: on},
				rounds:     rounds(25, math.NaN(), 35),
				failures:   []string{"it fell"},
			},
			{contestant: &contestant{name: "other", role: peer, on: elsewhere}, rounds: rounds(9999, 9999, 9999)},
		}}},
	}
}

func TestStandings(t *testing.T) {
	for _, s := range sample().cases[0].standings() {
		var toFloor, toBest metrics
		best := map[metric]string{throughput: "quick", cycleP50: "quick"}
		switch s.Name {
		case "we":
			// The second round was ten times as fast for all. Ratios are within rounds: 0.5, 0.6, 0.7 and 2, 2.
			toFloor, toBest = metrics{throughput: 0.6, cycleP50: 1 / 0.6}, metrics{throughput: 2, cycleP50: 0.5}
		case "other":
			toBest, best = metrics{
				throughput: 1,
				cycleP50:   1,
			}, map[metric]string{
				throughput: "other",
				cycleP50:   "other",
			}
		default:
			continue
		}
		for name := range meanings {
			if math.Abs(s.ToFloor[name]-toFloor[name]) > 1e-9 || math.Abs(s.ToBest[name]-toBest[name]) > 1e-9 {
				t.Errorf("%s: %s is %v of the floor's and %v of the best peer's, want %v and %v",
					s.Name, name, s.ToFloor[name], s.ToBest[name], toFloor[name], toBest[name])
			}
		}
		if !maps.Equal(s.BestPeer, best) {
			t.Errorf("%s: the best peers are %v, want %v", s.Name, s.BestPeer, best)
		}
	}
}

func TestTables(t *testing.T) {
	const want = `
## sample: made up

| median | locks/s | lock+unlock p50 µs |
|--------|--------:|-------------------:|
| bottom |     100 |               10.0 |
| we     |      70 |               14.3 |
| slow   |      10 |              100.0 |
| quick  |      30 |               34.3 |
| other  |   9,999 |                0.1 |

| to floor / to best peer |     locks/s | lock+unlock p50 |
|-------------------------|------------:|----------------:|
| bottom                  | 1.00 / 3.43 |     1.00 / 0.30 |
| we                      | 0.60 / 2.00 |     1.67 / 0.50 |
| slow                    | 0.10 / 0.34 |    10.00 / 3.00 |
| quick                   | 0.30 / best |     3.43 / best |
| other                   |    – / best |        – / best |

quick: it fell
`
	if got := sample().tables(); got != want {
		t.Errorf("it is\n%s\nwant\n%s", got, want)
	}
}

func TestJSON(t *testing.T) {
	file := filepath.Join(t.TempDir(), "run.json")
	must(t, sample().writeJSON(file))
	run, err := readJSON(file)
	must(t, err)
	we, quick := run.Cases[0].Contestants[1], run.Cases[0].Contestants[3]
	if we.Name != "we" || we.Role != ours || we.Site != "here" || we.Median[throughput] != 70 ||
		we.BestPeer[throughput] != "quick" {
		t.Errorf("we are %+v", we)
	}
	if len(quick.Rounds) != 3 || quick.Rounds[1] != nil || !slices.Equal(quick.Failures, []string{"it fell"}) {
		t.Errorf("the one that failed is %+v", quick)
	}
	if run.Rounds != 3 || run.Sites["here"] != "a server" || run.CPUs == 0 {
		t.Errorf("the run is %+v", run)
	}
	text, err := os.ReadFile(file)
	must(t, err)
	if line := `{ "lock_unlock_p50_us": 20, "ops_per_s": 50 }`; !strings.Contains(string(text), line) {
		t.Errorf("a round is not in one line, %s, in\n%s", line, text)
	}
}

// Who needs what is not there is left out, and it is said.
func TestLeaveOut(t *testing.T) {
	var said strings.Builder
	here, missing := &contestant{name: "here", needs: nothing}, &contestant{name: "missing", needs: func() error {
		return errors.New("no such program")
	}}
	p := &plan{contestants: []*contestant{{name: "always"}, missing, here}}
	p.leaveOut(func(format string, args ...any) { fmt.Fprintf(&said, format, args...) })
	if len(p.contestants) != 2 || p.contestants[1] != here {
		t.Errorf("there are %d, want those two that are not missing", len(p.contestants))
	}
	if want := "missing is left out: no such program\n"; said.String() != want {
		t.Errorf("it says %q, want %q", said.String(), want)
	}
}

func TestThousands(t *testing.T) {
	for want, v := range map[string]float64{"0": 0, "999": 999, "1,000": 1000, "-1,000": -1000, "-100": -100,
		"12,345,678": 12345678, "1,996,954": 1996954, "-123,456": -123456} {
		if got := thousands(v, 0); got != want {
			t.Errorf("%v is written %s, want %s", v, got, want)
		}
	}
	if got := thousands(1234.56, 1); got != "1,234.6" {
		t.Errorf("1234.56 is written %s", got)
	}
}

func TestOK(t *testing.T) {
	r := sample()
	if r.ok() {
		t.Error("a run with a measurement that failed is well")
	}
	rows := r.cases[0].rows
	rows[3].rounds[1] = metrics{}
	if !r.ok() {
		t.Error("a run without a fault is not well")
	}
	rows[2].rounds[0][overlapCount] = 1
	if !r.ok() {
		t.Error("a peer's fault is taken for ours")
	}
	rows[1].rounds[0][overlapCount] = 1
	if r.ok() {
		t.Error("an overlap of ours is well")
	}
}

// Every round goes over all, and begins with another.
func TestPlan(t *testing.T) {
	p, err := newPlan(
		true,
		5,
		regexp.MustCompile("."),
		regexp.MustCompile("^(raw|holdfast|rueidislock|redislock-eager)$"),
		siteKinds,
	)
	must(t, err)
	orders := map[string][]string{}
	steps := p.steps()
	for _, s := range steps {
		if len(orders[s.Name]) <= s.round {
			orders[s.Name] = append(orders[s.Name], "")
		}
		orders[s.Name][s.round] += " " + s.name
	}
	if n, want := len(steps), 5*(2*3+3*4)+3*2; n != want {
		t.Errorf("%d measurements, want %d", n, want)
	}
	for name, want := range map[string][]string{
		"one": {
			" raw holdfast rueidislock", " holdfast rueidislock raw", " rueidislock raw holdfast",
			" raw holdfast rueidislock", " raw holdfast rueidislock",
		},
		"work": {
			" raw holdfast rueidislock redislock-eager", " holdfast rueidislock redislock-eager raw",
			" rueidislock redislock-eager raw holdfast", " redislock-eager raw holdfast rueidislock",
			" raw holdfast rueidislock redislock-eager",
		},
		"leases": {" holdfast rueidislock", " holdfast rueidislock", " rueidislock holdfast"},
	} {
		if !slices.Equal(orders[name], want) {
			t.Errorf("%s: %q, want %q", name, orders[name], want)
		}
	}
}

// planned is what a command line asks for.
func planned(t *testing.T, args ...string) *plan {
	t.Helper()
	var f flags
	fs := flag.NewFlagSet("bench", flag.ContinueOnError)
	f.define(fs)
	must(t, fs.Parse(args))
	p, err := f.plan()
	must(t, err)
	return p
}

// notTests matches the contestants but for those of the tests.
const notTests = "^[^t]"

func TestQuickIsQuick(t *testing.T) {
	for stores, minutes := range map[string]float64{defaultStores: 1, "all": 3} {
		if p := planned(t, "--quick", "--contestants", notTests, "--store", stores); p.takes().Minutes() > minutes {
			t.Errorf("%s: it takes %v", stores, p.takes())
		}
	}
}

func TestStores(t *testing.T) {
	redis := "raw holdfast holdfast-strict rueidislock redsync redsync-rueidis redsync-eager redislock " +
		"redislock-eager redisson redisson-fair"
	groups := "raw-sentinel holdfast-sentinel holdfast-replicas raw-cluster holdfast-cluster"
	masters := "holdfast-master holdfast-redlock holdfast-redlock-unsaved redsync-redlock redsync-redlock-rueidis " +
		"redsync-redlock-failfast redsync-redlock-eager"
	file, etcd := "holdfast-sqlite flock", "raw-etcd holdfast-etcd concurrency"
	postgres := "raw-postgres holdfast-postgres advisory-lock for-update-postgres"
	mariadb := "raw-mariadb holdfast-mariadb get-lock for-update-mariadb"
	zookeeper := "raw-zookeeper holdfast-zookeeper holdfast-curator zk-lock curator"
	consul := "raw-consul holdfast-consul api-lock api-lock-session"
	for _, test := range []struct {
		args []string
		want string
	}{
		{nil, redis + " " + file},
		{[]string{"--store", "redis"}, redis},
		{[]string{"--store", "redis,redis-sentinel,redis-cluster"}, redis + " " + groups},
		{[]string{"--store", "redis-masters"}, masters},
		{[]string{"--store", "etcd"}, etcd},
		{[]string{"--store", "etcd,file"}, file + " " + etcd},
		{[]string{"--store", "postgres,mariadb"}, postgres + " " + mariadb},
		{[]string{"--store", "zookeeper"}, zookeeper},
		{[]string{"--store", "consul"}, consul},
		{[]string{"--store", "all"}, strings.Join([]string{redis, groups, masters, file, etcd, postgres, mariadb,
			zookeeper, consul}, " ")},
	} {
		var names []string
		for _, c := range planned(t, append(test.args, "--contestants", notTests)...).contestants {
			names = append(names, c.name)
		}
		if got := strings.Join(names, " "); got != test.want {
			t.Errorf("%q: %s, want %s", test.args, got, test.want)
		}
	}
	if set := planned(t).servers; set != (serverSettings{nodes: 1}) {
		t.Errorf("by default servers are set to %+v", set)
	}
	set := planned(t, "--store", "all", "--nodes", "3", "--no-fsync").servers
	if set != (serverSettings{nodes: 3, noFsync: true}) {
		t.Errorf("servers are set to %+v", set)
	}
}

// Who keeps nobody out is no part of a case where somebody must wait.
func TestTakesPart(t *testing.T) {
	for name, want := range map[string]string{
		"raw":            "one names goroutines processes work",
		"raw-etcd":       "one names",
		"concurrency":    "one names goroutines processes work",
		"holdfast-etcd":  "one names goroutines processes work",
		"raw-zookeeper":  "one names",
		"curator":        "one names goroutines processes work",
		"raw-consul":     "one names",
		"api-lock":       "one names goroutines processes work",
		"redsync-eager":  "goroutines processes work",
		"redisson":       "one names goroutines processes work",
		"test-open-door": "one names goroutines processes work leases",

		"holdfast-master":       "one names goroutines processes work stopped leases",
		"holdfast-redlock":      "one names goroutines processes work stopped leases",
		"redsync-redlock":       "one names goroutines processes work stopped",
		"redsync-redlock-eager": "goroutines processes work",
	} {
		var cases []string
		for _, w := range workloads(true) {
			if contestantNamed(name).takesPart(w) {
				cases = append(cases, w.Name)
			}
		}
		if got := strings.Join(cases, " "); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
}

func TestUsage(t *testing.T) {
	u, err := usageFrom(map[string]string{
		"used_cpu_sys": "1.5", "used_cpu_user": "2.25", "total_commands_processed": "100",
		"cmdstat_evalsha": "calls=40,usec=10,usec_per_call=0.25,rejected_calls=0,failed_calls=0",
		"cmdstat_set":     "calls=7,usec=1,usec_per_call=0.1,rejected_calls=0,failed_calls=0",
	})
	must(t, err)
	before := usage{known: true, cpu: 1e9, commands: 10, calls: map[string]int64{"evalsha": 1}}
	d := u.since(before)
	if !d.known || d.cpu != 2750e6 || d.commands != 90 || d.sent(scripts) != 39 || d.sent(setAndScripts) != 46 {
		t.Errorf("%+v", d)
	}
	if d.sent(nil) != 90 {
		t.Errorf("all are %d, want 90", d.sent(nil))
	}
	if _, err := usageFrom(map[string]string{}); err == nil {
		t.Error("a server that says nothing is believed")
	}
	if (usage{}).since(u).known || u.since(usage{}).known {
		t.Error("what nobody knows is known")
	}
}
