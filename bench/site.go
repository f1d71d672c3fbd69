package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/servers"
)

// A site is what contestants keep their locks in, started for this run.
type site interface {
	// Fresh clears the site for the next measurement, and says where it is.
	Fresh(ctx context.Context) (where string, err error)
	// Usage is what the site has done since it was started. A site without a server has none.
	Usage(ctx context.Context) (usage, error)
	// About says which program and version it is.
	About() string
	Close() error
}

// usage is what a server has done.
type usage struct {
	known    bool
	cpu      time.Duration
	commands int64            // also those inside scripts
	calls    map[string]int64 // of each command, likewise
}

// since is what was done between two looks.
func (u usage) since(before usage) usage {
	d := usage{known: u.known && before.known, cpu: u.cpu - before.cpu, commands: u.commands - before.commands}
	d.calls = map[string]int64{}
	for command, n := range u.calls {
		d.calls[command] = n - before.calls[command]
	}
	return d
}

// sent is how many commands clients sent, if they send only these. A server also counts what a script calls. Without
// any it is all of them: nothing but clients calls.
func (u usage) sent(commands []string) (n int64) {
	if commands == nil {
		return u.commands
	}
	for _, command := range commands {
		n += u.calls[command]
	}
	return n
}

func seconds(n float64) time.Duration { return time.Duration(n * float64(time.Second)) }

// A siteKind is how a kind of site is started.
type siteKind struct {
	name  string
	start func(context.Context, serverSettings) (site, error)
}

// ourOwn is the part of a site that is the same for all servers of our own.
type ourOwn struct {
	version string
	stop    func() error
}

// start starts the servers of a site that this is a part of, and returns the site. Close stops them.
func (o *ourOwn) start(ctx context.Context, whole site, start func(testing.TB) error) (site, error) {
	var err error
	o.stop, err = servers.Outside(ctx, func(t testing.TB) {
		if err := start(t); err != nil {
			t.Fatal(err)
		}
	})
	return whole, err
}

func (o *ourOwn) Close() error { return o.stop() }

// plural writes a number with a word.
func plural(n int, word string) string {
	if n != 1 {
		word += "s"
	}
	return fmt.Sprintf("%d %s", n, word)
}

// serverSettings are what can be chosen about servers.
type serverSettings struct {
	nodes   int  // of etcd, ZooKeeper and Consul
	noFsync bool // of etcd and ZooKeeper
}

var (
	redisSite     = &siteKind{"redis", startRedis((*redisServers).formAlone)}
	sentinelSite  = &siteKind{"redis-sentinel", startRedis((*redisServers).formSentinel)}
	clusterSite   = &siteKind{"redis-cluster", startRedis((*redisServers).formCluster)}
	mastersSite   = &siteKind{"redis-masters", startRedis((*redisServers).formMasters)}
	folderSite    = &siteKind{"file", startFolder}
	etcdSite      = &siteKind{"etcd", startEtcd}
	postgresSite  = &siteKind{"postgres", startPostgres}
	mariadbSite   = &siteKind{"mariadb", startMariaDB}
	zookeeperSite = &siteKind{"zookeeper", startZooKeeper}
	consulSite    = &siteKind{"consul", startConsul}
)

// siteKinds are all that --store can choose from.
var siteKinds = []*siteKind{
	redisSite, sentinelSite, clusterSite, mastersSite, folderSite, etcdSite, postgresSite, mariadbSite, zookeeperSite,
	consulSite,
}

// defaultStores are what is measured if nobody chooses.
const defaultStores = "redis,file"

// chooseSites reads a list of names, or all.
func chooseSites(list string) (chosen []*siteKind, err error) {
	if list == "all" {
		return siteKinds, nil
	}
	for name := range strings.SplitSeq(list, ",") {
		i := slices.IndexFunc(siteKinds, func(k *siteKind) bool { return k.name == name })
		if i < 0 {
			return nil, fmt.Errorf("there is no store %q", name)
		}
		chosen = append(chosen, siteKinds[i])
	}
	return chosen, nil
}

// A folder is a site for locks that are files. Each measurement has a folder of its own in it.
type folder struct {
	dir string
	n   int
}

func startFolder(context.Context, serverSettings) (site, error) {
	dir, err := os.MkdirTemp("", "holdfast-bench-")
	if err != nil {
		return nil, err
	}
	return &folder{dir: dir}, nil
}

// Fresh makes the folder for a measurement. What it says is the path of a file in it that is not there yet.
func (f *folder) Fresh(context.Context) (string, error) {
	f.n++
	dir := filepath.Join(f.dir, strconv.Itoa(f.n))
	return filepath.Join(dir, "locks"), os.Mkdir(dir, 0o700)
}

func (f *folder) Usage(context.Context) (usage, error) { return usage{}, nil }

func (f *folder) About() string { return "files in a temp folder" }

func (f *folder) Close() error { return os.RemoveAll(f.dir) }
