package rediswire

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/holdfast-go/holdfast/store"
)

// An Examination reads the settings of one server that matter for locks.
type Examination struct {
	Node     string        // put before what is found, where there are several servers
	Replicas int           // that must acknowledge a grant
	Delay    time.Duration // for which nothing is granted after a restart
	Voter    bool          // it is one node of a majority, and is not to fail over

	info   Info
	config map[string]string // empty if it may not be read
}

// farOff is how far a server's clock may be off without a warning.
const farOff = 10 * time.Second

// Of reads the settings of the server that w leads to.
func (e *Examination) Of(ctx context.Context, w Doer) []store.Finding {
	asked := time.Now()
	answers := w.DoAll(ctx, []rueidis.Completed{
		w.B().Time().Build(),
		w.B().Info().Build(),
		w.B().Arbitrary("ACL", "WHOAMI").Build(),
		configGet(w, "append*"), configGet(w, "save"), configGet(w, "min-replicas-to-write"),
		configGet(w, "stop-writes-on-bgsave-error"),
	})
	took := time.Since(asked)
	text, err := answers[1].Text()
	if err != nil {
		why, _ := Explain(err)
		return []store.Finding{e.found(store.Finding{
			Check: "server", Level: store.Warn, Found: "INFO cannot be read: " + why.Error(),
			Why: "whether the server keeps what it has acknowledged is not known",
			Fix: "grant +info to this user",
		})}
	}
	e.info = ReadInfo(text)
	all := []store.Finding{
		e.user(answers[2], answers[3:]),
		{Check: "version", Found: e.info.String()},
		e.clock(answers[0], asked.Add(took/2)),
		e.eviction(), e.memory(), e.persistence(), e.replication(),
	}
	for i := range all {
		all[i] = e.found(all[i])
	}
	return all
}

// configGet reads settings. Not all of them are read: passwords are among them.
func configGet(w Doer, pattern string) rueidis.Completed {
	return w.B().Arbitrary("CONFIG", "GET").Args(pattern).Build()
}

func (e *Examination) found(f store.Finding) store.Finding {
	if e.Node != "" {
		f.Found = e.Node + ": " + f.Found
	}
	return f
}

// user reports as which user the store is connected, and whether the configuration can be read.
func (e *Examination) user(whoami Reply, config []Reply) store.Finding {
	f := store.Finding{Check: "permissions", Found: "connected as a user that may run what locks need"}
	if name, err := whoami.Text(); err == nil {
		f.Found = fmt.Sprintf("connected as %s, which may run what locks need", store.Quote(name))
	}
	e.config = map[string]string{}
	for _, answer := range config {
		pairs, _ := answer.Texts() // none if it may not be read
		for pair := range slices.Chunk(pairs, 2) {
			if len(pair) == 2 {
				e.config[pair[0]] = pair[1]
			}
		}
	}
	if len(e.config) == 0 {
		f.Found += ", and may not read the configuration (CONFIG GET)"
	}
	return f
}

// clock compares the clocks.
func (e *Examination) clock(answer Reply, asked time.Time) store.Finding {
	f := store.Finding{Check: "clock", Found: "the server's time is not known"}
	now, err := serverTime(answer)
	if err != nil {
		return f
	}
	ahead := now.Sub(asked).Round(time.Millisecond)
	f.Found = fmt.Sprintf("the server's clock is %v from this machine's", ahead)
	if ahead.Abs() > farOff {
		f.Level = store.Warn
		f.Why = "locks do not depend on it; tokens begin anew from the clock when data was lost, and one set back " +
			"may repeat them"
		f.Fix = "synchronise the clocks of server and clients (chrony, systemd-timesyncd)"
	}
	return f
}

func (e *Examination) eviction() store.Finding {
	policy := e.info.Get("maxmemory_policy")
	f := store.Finding{Check: "eviction", Found: "no key is evicted (" + cmp.Or(policy, "noeviction") + ")"}
	unlimited := e.info.Get("maxmemory") == "0"
	switch {
	case e.info.Evicts():
		f.Level = store.Fail
		f.Found = "when its memory is full it throws away keys, and locks with them, by the policy " + policy
		f.Why = "a lock that is evicted is granted to another client while its holder still works"
		f.Fix = "CONFIG SET maxmemory-policy noeviction, and the same in redis.conf; or give locks a server of " +
			"their own"
	case unlimited && policy != "" && policy != "noeviction":
		f.Level = store.Warn
		f.Found = "the policy is " + policy + ", which has no effect while there is no maxmemory"
		f.Why = "once a maxmemory is set, locks are evicted when it is reached, and granted twice"
		f.Fix = "CONFIG SET maxmemory-policy noeviction, and the same in redis.conf"
	}
	return f
}

func (e *Examination) memory() store.Finding {
	number := func(name string) int64 { n, _ := strconv.ParseInt(e.info.Get(name), 10, 64); return n }
	used, most := number("used_memory"), number("maxmemory")
	f := store.Finding{Check: "memory", Found: fmt.Sprintf("%d MiB in use", used>>20)}
	if most == 0 {
		return f
	}
	f.Found = fmt.Sprintf("%d of %d MiB in use", used>>20, most>>20)
	if used > most/10*9 {
		f.Level = store.Warn
		f.Why = "when its memory is full the server refuses writes: no lock is granted or renewed"
		f.Fix = "CONFIG SET maxmemory to more, or remove other data"
	}
	return f
}

// persistence reports what a restart loses.
func (e *Examination) persistence() store.Finding {
	f := store.Finding{Check: "persistence"}
	fsync, known := e.config["appendfsync"]
	broken := e.info.Get("aof_enabled") == "1" && e.info.Get("aof_last_write_status") == "err"
	switch {
	case broken || e.info.Get("rdb_last_bgsave_status") == "err" && e.config["stop-writes-on-bgsave-error"] != "no" &&
		e.config["save"] != "":
		f.Level, f.Found = store.Fail, "the server failed to write its data to disk"
		f.Why = "it refuses writes then: no lock is granted or renewed"
		f.Fix = "free disk space or fix permissions of the folder that CONFIG GET dir names; the server's log has " +
			"the reason"
		return f
	case e.info.Get("aof_enabled") != "1":
		f.Level, f.Found = store.Warn, "appendonly is off: a restart loses locks that were acknowledged"
	case known && fsync != "always":
		f.Level, f.Found = store.Warn, "appendfsync is "+fsync+": a crash of the machine loses locks of the last "+
			"moments"
	case !known:
		f.Level, f.Found = store.Warn, "appendonly is on; appendfsync is not known, as CONFIG GET is not allowed"
	default:
		f.Found = "appendonly is on with appendfsync always: a restart loses nothing"
		return f
	}
	f.Why = "until the lost leases have expired, two clients can hold one lock"
	f.Fix = "CONFIG SET appendonly yes; CONFIG SET appendfsync always; CONFIG REWRITE; or have all clients use " +
		"?startup-delay=D with D at least the longest ttl"
	switch {
	case e.Voter:
		f.Level = store.OK
		f.Found += "; a node has no vote for max-ttl after that, so that no lock is granted twice"
	case e.Delay > 0:
		f.Level = store.OK
		f.Found += fmt.Sprintf("; nothing is granted for %v after that (startup-delay), which covers leases of up to "+
			"that ttl", e.Delay)
	}
	return f
}

// replication reports what a failover loses.
func (e *Examination) replication() store.Finding {
	f := store.Finding{Check: "replication"}
	replicas, _ := strconv.Atoi(e.info.Get("connected_slaves"))
	least, _ := strconv.Atoi(e.config["min-replicas-to-write"])
	role := e.info.Get("role")
	f.Found = fmt.Sprintf("it is a %s with %d replicas, of which %d must acknowledge a grant (wait-replicas)", role,
		replicas, e.Replicas)
	switch {
	case least > replicas:
		f.Level = store.Fail
		f.Found += fmt.Sprintf("; min-replicas-to-write is %d", least)
		f.Why = "the server refuses writes while it has fewer replicas: no lock is granted or renewed"
		f.Fix = "start the replicas, or CONFIG SET min-replicas-to-write 0"
	case e.Replicas > replicas:
		f.Level = store.Fail
		f.Why = "nothing is granted or renewed while fewer replicas acknowledge"
		f.Fix = fmt.Sprintf("start the replicas, or set wait-replicas=%d in the URL of all clients", replicas)
	case e.Voter && replicas > 0:
		f.Level = store.Warn
		f.Found = fmt.Sprintf("it has %d replicas", replicas)
		f.Why = "a failover loses votes that the replica has not received, and a lock can be granted twice"
		f.Fix = "use masters without replicas and without Sentinel as nodes"
	case e.Voter:
		f.Found = "it is a " + role + " without replicas, as a node should be"
	case replicas > e.Replicas:
		f.Level = store.Warn
		f.Why = "a failover to a replica that did not acknowledge loses grants: two clients can hold one lock for " +
			"up to a ttl"
		f.Fix = fmt.Sprintf("set wait-replicas=%d in the URL of all clients", replicas)
	}
	if lag := e.lag(); lag > farOff && f.Level == store.OK {
		f.Level = store.Warn
		f.Found += fmt.Sprintf("; a replica was last heard of %v ago", lag)
		f.Why = "a replica that falls behind does not acknowledge, and has old locks when it is promoted"
		f.Fix = "check network and load of the replica: INFO replication"
	}
	return f
}

// lag returns how long ago the replica that lags most was heard of.
func (e *Examination) lag() (most time.Duration) {
	for i := 0; ; i++ {
		about, ok := e.info.fields["slave"+strconv.Itoa(i)]
		if !ok {
			return most
		}
		for field := range strings.SplitSeq(about, ",") {
			if seconds, ok := strings.CutPrefix(field, "lag="); ok {
				n, _ := strconv.Atoi(seconds)
				most = max(most, time.Duration(n)*time.Second)
			}
		}
	}
}
