package main

import (
	"context"
	"slices"
	"time"
)

// A contestant is a lock that is measured.
type contestant struct {
	name string
	role role
	on   *siteKind
	// open makes its client in one process.
	open opener
	// hire starts a worker that is another program. It has no open then.
	hire func(context.Context, assignment) (*hand, error)
	// needs is set if a machine may lack what the contestant needs. With an error it is left out.
	needs func() error
	// sends are the commands that it sends to a server that counts them. What its scripts call is not among them. Where
	// there are no scripts, nil is all.
	sends []string
	// renews says that it keeps leases alive by itself. Those who do not are no part of a workload that holds leases.
	renews bool
	// fewer says that it holds fewer leases than others, in a workload of its own.
	fewer bool
	// onlyContended leaves it out where nobody waits: it differs from another contestant only in how it waits.
	onlyContended bool
	// onlyAlone leaves it out where somebody waits: it keeps nobody out.
	onlyAlone bool
}

// A role says what a contestant is compared with.
type role string

const (
	floor role = "floor" // the least that it could cost
	peer  role = "peer"
	ours  role = "holdfast"
)

// contestants are all, in the order of the table. Ratios are within what runs on the same kind of site.
var contestants = slices.Concat(
	on(redisSite, []contestant{
		{name: "raw", role: floor, open: openRaw, sends: setAndDel},
		{name: "holdfast", role: ours, open: holdfastOn("redis://"), sends: scripts, renews: true},
		{
			name: "holdfast-strict", role: ours, open: holdfastOn("redis://", strict), sends: scripts,
			onlyContended: true,
		},
		{name: "rueidislock", role: peer, open: openRueidislock, sends: scripts, renews: true},
		{name: "redsync", role: peer, open: openRedsync(redsyncGoRedis), sends: setAndScripts},
		{name: "redsync-rueidis", role: peer, open: openRedsync(redsyncRueidis), sends: setAndScripts},
		{
			name: "redsync-eager", role: peer, open: openRedsync(redsyncRueidis, eagerRedsync), sends: setAndScripts,
			onlyContended: true,
		},
		{name: "redislock", role: peer, open: openRedislock(redislockExample), sends: scripts},
		{name: "redislock-eager", role: peer, open: openRedislock(eager), sends: scripts, onlyContended: true},
		{name: "redisson", role: peer, hire: hireRedisson, needs: needsRedisson, sends: lockAndListen},
		{name: "redisson-fair", role: peer, hire: hireRedisson, needs: needsRedisson, sends: lockAndListen},
	}),
	on(sentinelSite, []contestant{
		{name: "raw-sentinel", role: floor, open: openRawSentinel, sends: setAndDel},
		{name: "holdfast-sentinel", role: ours, open: holdfastOn("redis+sentinel://"), sends: scripts, renews: true},
		{name: "holdfast-replicas", role: ours, open: openHoldfastReplicas, sends: scriptsAndWait, renews: true},
	}),
	on(clusterSite, []contestant{
		{name: "raw-cluster", role: floor, open: openRaw, sends: setAndDel},
		{name: "holdfast-cluster", role: ours, open: holdfastOn("redis+cluster://"), sends: scripts, renews: true},
	}),
	on(mastersSite, []contestant{
		{name: "holdfast-master", role: floor, open: openHoldfastMaster, sends: scripts, renews: true},
		{name: "holdfast-redlock", role: ours, open: openHoldfastRedlock("saved"), sends: scripts, renews: true},
		{name: "holdfast-redlock-unsaved", role: ours, open: openHoldfastUnsaved, sends: scripts, renews: true},
		{name: "redsync-redlock", role: peer, open: openRedsync(redsyncGoRedis), sends: setAndScripts},
		{name: "redsync-redlock-rueidis", role: peer, open: openRedsync(redsyncRueidis), sends: setAndScripts},
		{
			name: "redsync-redlock-failfast", role: peer, open: openRedsync(redsyncGoRedis, failFast),
			sends: setAndScripts,
		},
		{
			name: "redsync-redlock-eager", role: peer, open: openRedsync(redsyncRueidis, failFast, eagerRedsync),
			sends: setAndScripts, onlyContended: true,
		},
	}),
	on(folderSite, []contestant{
		{name: "holdfast-sqlite", role: ours, open: holdfastOn("sqlite:")},
		{name: "flock", role: peer, open: openFlock},
	}),
	on(etcdSite, []contestant{
		{name: "raw-etcd", role: floor, open: onEtcd(newEtcdRaw), onlyAlone: true},
		{name: "holdfast-etcd", role: ours, open: holdfastSession("etcd://", "")},
		{name: "concurrency", role: peer, open: onEtcd(newEtcdRecipe)},
	}),
	on(postgresSite, []contestant{
		{name: "raw-postgres", role: floor, open: onPostgres(mostConnections, insertPostgres), onlyAlone: true},
		{name: "holdfast-postgres", role: ours, open: holdfastOn(""), renews: true, fewer: true},
		{name: "advisory-lock", role: peer, open: onPostgres(0, advisoryLock)},
		{name: "for-update-postgres", role: peer, open: onPostgres(0, rowLockPostgres)},
	}),
	on(mariadbSite, []contestant{
		{name: "raw-mariadb", role: floor, open: onMySQL(mostConnections, insertMySQL), onlyAlone: true},
		{name: "holdfast-mariadb", role: ours, open: holdfastOn(""), renews: true, fewer: true},
		{name: "get-lock", role: peer, open: onMySQL(0, getLock)},
		{name: "for-update-mariadb", role: peer, open: onMySQL(0, rowLockMySQL)},
	}),
	on(zookeeperSite, []contestant{
		{name: "raw-zookeeper", role: floor, open: onZooKeeper(newZooKeeperRaw), onlyAlone: true},
		{name: "holdfast-zookeeper", role: ours, open: openHoldfastZooKeeper("holdfast")},
		{name: "holdfast-curator", role: ours, open: openHoldfastZooKeeper("curator")},
		{name: "zk-lock", role: peer, open: onZooKeeper(newZooKeeperLock)},
		{name: "curator", role: peer, hire: hireCurator},
	}),
	on(consulSite, []contestant{
		{name: "raw-consul", role: floor, open: onConsul(newConsulRaw), onlyAlone: true},
		{name: "holdfast-consul", role: ours, open: holdfastSession("consul://", "")},
		{name: "api-lock", role: peer, open: openConsulLock},
		{name: "api-lock-session", role: peer, open: onConsul(newConsulSessionLock)},
	}),
)

// on places contestants on a kind of site.
func on(kind *siteKind, here []contestant) []contestant {
	for i := range here {
		here[i].on = kind
	}
	return here
}

var (
	setAndDel      = []string{"set", "del"}
	scripts        = []string{"evalsha", "eval"}
	setAndScripts  = []string{"set", "evalsha", "eval"}
	scriptsAndWait = []string{"evalsha", "eval", "wait"}
	lockAndListen  = []string{"evalsha", "eval", "subscribe", "unsubscribe"}
)

// eager is how long those who poll wait between two tries where they are set to poll as often as is bearable.
const eager = time.Millisecond

// takesPart says whether c is measured under w.
func (c *contestant) takesPart(w *workload) bool {
	if w.Leases > 0 {
		return c.renews && c.fewer == w.Fewer
	}
	if w.Stops && c.on != mastersSite {
		return false
	}
	if w.contended() {
		return !c.onlyAlone
	}
	return !c.onlyContended
}

func contestantNamed(name string) *contestant {
	i := slices.IndexFunc(contestants, func(c contestant) bool { return c.name == name })
	if i < 0 {
		return nil
	}
	return &contestants[i]
}
