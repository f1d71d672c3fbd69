package main

import (
	"context"
	"time"
)

// A contestant is a lock that is measured.
type contestant struct {
	name string
	role role
	on   *siteKind
	// open makes its client in one process. where is the site's address.
	open func(ctx context.Context, where string, ttl time.Duration) (locker, error)
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
var contestants = []contestant{
	{name: "raw", role: floor, on: redisSite, open: openRaw, sends: []string{"set", "del"}},
	{name: "holdfast", role: ours, on: redisSite, open: holdfastOn("redis://"), sends: scripts, renews: true},
	{
		name:          "holdfast-strict",
		role:          ours,
		on:            redisSite,
		open:          holdfastOn("redis://", strict),
		sends:         scripts,
		onlyContended: true,
	},
	{name: "rueidislock", role: peer, on: redisSite, open: openRueidislock, sends: scripts, renews: true},
	{name: "redsync", role: peer, on: redisSite, open: openRedsync(redsyncGoRedis), sends: setAndScripts},
	{name: "redsync-rueidis", role: peer, on: redisSite, open: openRedsync(redsyncRueidis), sends: setAndScripts},
	{
		name:          "redsync-eager",
		role:          peer,
		on:            redisSite,
		open:          openRedsync(redsyncRueidis, eagerRedsync),
		sends:         setAndScripts,
		onlyContended: true,
	},
	{name: "redislock", role: peer, on: redisSite, open: openRedislock(redislockExample), sends: scripts},
	{
		name:          "redislock-eager",
		role:          peer,
		on:            redisSite,
		open:          openRedislock(eager),
		sends:         scripts,
		onlyContended: true,
	},
	{name: "redisson", role: peer, on: redisSite, hire: hireRedisson, needs: needsRedisson, sends: lockAndListen},
	{name: "redisson-fair", role: peer, on: redisSite, hire: hireRedisson, needs: needsRedisson, sends: lockAndListen},

	{name: "raw-sentinel", role: floor, on: sentinelSite, open: openRawSentinel, sends: []string{"set", "del"}},
	{
		name:   "holdfast-sentinel",
		role:   ours,
		on:     sentinelSite,
		open:   holdfastOn("redis+sentinel://"),
		sends:  scripts,
		renews: true,
	},
	{
		name:   "holdfast-replicas",
		role:   ours,
		on:     sentinelSite,
		open:   openHoldfastReplicas,
		sends:  scriptsAndWait,
		renews: true,
	},

	{name: "raw-cluster", role: floor, on: clusterSite, open: openRaw, sends: []string{"set", "del"}},
	{
		name:   "holdfast-cluster",
		role:   ours,
		on:     clusterSite,
		open:   holdfastOn("redis+cluster://"),
		sends:  scripts,
		renews: true,
	},

	{name: "holdfast-master", role: floor, on: mastersSite, open: openHoldfastMaster, sends: scripts, renews: true},
	{
		name:   "holdfast-redlock",
		role:   ours,
		on:     mastersSite,
		open:   openHoldfastRedlock("saved"),
		sends:  scripts,
		renews: true,
	},
	{
		name:   "holdfast-redlock-unsaved",
		role:   ours,
		on:     mastersSite,
		open:   openHoldfastUnsaved,
		sends:  scripts,
		renews: true,
	},
	{name: "redsync-redlock", role: peer, on: mastersSite, open: openRedsync(redsyncGoRedis), sends: setAndScripts},
	{
		name:  "redsync-redlock-rueidis",
		role:  peer,
		on:    mastersSite,
		open:  openRedsync(redsyncRueidis),
		sends: setAndScripts,
	},
	{
		name:  "redsync-redlock-failfast",
		role:  peer,
		on:    mastersSite,
		open:  openRedsync(redsyncGoRedis, failFast),
		sends: setAndScripts,
	},
	{
		name:          "redsync-redlock-eager",
		role:          peer,
		on:            mastersSite,
		open:          openRedsync(redsyncRueidis, failFast, eagerRedsync),
		sends:         setAndScripts,
		onlyContended: true,
	},

	{name: "holdfast-sqlite", role: ours, on: folderSite, open: holdfastOn("sqlite:")},
	{name: "flock", role: peer, on: folderSite, open: openFlock},

	{name: "raw-etcd", role: floor, on: etcdSite, open: onEtcd(newEtcdRaw), onlyAlone: true},
	{name: "holdfast-etcd", role: ours, on: etcdSite, open: openHoldfastEtcd},
	{name: "concurrency", role: peer, on: etcdSite, open: onEtcd(newEtcdRecipe)},

	{
		name:      "raw-postgres",
		role:      floor,
		on:        postgresSite,
		open:      onPostgres(mostConnections, insertPostgres),
		onlyAlone: true,
	},
	{name: "holdfast-postgres", role: ours, on: postgresSite, open: holdfastOn(""), renews: true, fewer: true},
	{name: "advisory-lock", role: peer, on: postgresSite, open: onPostgres(0, advisoryLock)},
	{name: "for-update-postgres", role: peer, on: postgresSite, open: onPostgres(0, rowLockPostgres)},

	{name: "raw-mariadb", role: floor, on: mariadbSite, open: onMySQL(mostConnections, insertMySQL), onlyAlone: true},
	{name: "holdfast-mariadb", role: ours, on: mariadbSite, open: holdfastOn(""), renews: true, fewer: true},
	{name: "get-lock", role: peer, on: mariadbSite, open: onMySQL(0, getLock)},
	{name: "for-update-mariadb", role: peer, on: mariadbSite, open: onMySQL(0, rowLockMySQL)},

	{name: "raw-zookeeper", role: floor, on: zookeeperSite, open: onZooKeeper(newZooKeeperRaw), onlyAlone: true},
	{name: "holdfast-zookeeper", role: ours, on: zookeeperSite, open: openHoldfastZooKeeper("holdfast")},
	{name: "holdfast-curator", role: ours, on: zookeeperSite, open: openHoldfastZooKeeper("curator")},
	{name: "zk-lock", role: peer, on: zookeeperSite, open: onZooKeeper(newZooKeeperLock)},
	{name: "curator", role: peer, on: zookeeperSite, hire: hireCurator},

	{name: "raw-consul", role: floor, on: consulSite, open: onConsul(newConsulRaw), onlyAlone: true},
	{name: "holdfast-consul", role: ours, on: consulSite, open: openHoldfastConsul},
	{name: "api-lock", role: peer, on: consulSite, open: openConsulLock},
	{name: "api-lock-session", role: peer, on: consulSite, open: onConsul(newConsulSessionLock)},
}

var (
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
	for i := range contestants {
		if contestants[i].name == name {
			return &contestants[i]
		}
	}
	return nil
}
