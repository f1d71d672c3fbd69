package main

import (
	"errors"
	"flag"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// flags are what the command line says.
type flags struct {
	quick   bool
	rounds  int
	cases   string
	names   string
	stores  string
	servers serverSettings
	file    string
	charts  string
	from    string
}

// define gives them their defaults, and has fs set them.
func (f *flags) define(fs *flag.FlagSet) {
	fs.BoolVar(&f.quick, "quick", false,
		"a run of less than a minute, with --store all of less than three, to see that all works; its numbers say "+
			"little")
	fs.IntVar(&f.rounds, "rounds", 0, "how often everything is measured, `N` times (default 5, with --quick 1)")
	fs.StringVar(&f.cases, "cases", ".", "measure the cases whose name matches this `regexp`")
	fs.StringVar(&f.names, "contestants", ".", "measure the contestants whose name matches this `regexp`")
	fs.StringVar(&f.stores, "store", defaultStores,
		"measure the contestants on these stores, a `list` of redis, redis-sentinel, redis-cluster, redis-masters, "+
			"file, etcd, postgres, mariadb, zookeeper and consul, or all (default "+defaultStores+")")
	fs.IntVar(&f.servers.nodes, "nodes", 1, "how many nodes etcd, ZooKeeper or Consul has, `N` of them (default 1)")
	fs.BoolVar(&f.servers.noFsync, "no-fsync", false,
		"etcd or ZooKeeper does not wait until the disk has what it writes; by default it does")
	fs.StringVar(&f.file, "json", "", "write everything, every round too, to this `file`")
	fs.StringVar(&f.charts, "charts", "", "draw charts into this `folder`, as SVG in a light and in a dark scheme")
	fs.StringVar(&f.from, "from", "", "measure nothing, and draw the charts of an earlier run's --json `file`")
}

// notMeasured are the flags that say nothing about what is measured.
var notMeasured = []string{"json", "charts", "from"}

// asTyped writes the command line that measures the same again, from the repository's root.
func asTyped(fs *flag.FlagSet) string {
	text := "go -C bench run ."
	fs.Visit(func(f *flag.Flag) {
		value := f.Value.String()
		if strings.ContainsAny(value, "^$()|*?[] ") {
			value = "'" + value + "'"
		}
		switch {
		case slices.Contains(notMeasured, f.Name):
		case value == "true":
			text += " --" + f.Name
		default:
			text += " --" + f.Name + " " + value
		}
	})
	return text
}

// plan is what they ask for.
func (f *flags) plan() (*plan, error) {
	rounds := f.rounds
	switch {
	case rounds < 0:
		return nil, fmt.Errorf("--rounds %d: it cannot be negative", rounds)
	case rounds == 0 && f.quick:
		rounds = 1
	case rounds == 0:
		rounds = 5
	}
	byCase, err := regexp.Compile(f.cases)
	if err != nil {
		return nil, fmt.Errorf("--cases: %w", err)
	}
	byName, err := regexp.Compile(f.names)
	if err != nil {
		return nil, fmt.Errorf("--contestants: %w", err)
	}
	on, err := chooseSites(f.stores)
	if err != nil {
		return nil, fmt.Errorf("--store: %w", err)
	}
	if f.servers.nodes < 1 {
		return nil, fmt.Errorf("--nodes %d: there must be one at least", f.servers.nodes)
	}
	if f.servers.nodes > 1 && !containsAny(on, etcdSite, zookeeperSite, consulSite) {
		return nil, errors.New("--nodes is about etcd, ZooKeeper and Consul: --store etcd, zookeeper or consul")
	}
	if f.servers.noFsync && !containsAny(on, etcdSite, zookeeperSite) {
		return nil, errors.New("--no-fsync is about etcd and ZooKeeper: --store etcd or zookeeper")
	}
	p, err := newPlan(f.quick, rounds, byCase, byName, on)
	if err != nil {
		return nil, err
	}
	p.servers = f.servers
	return p, nil
}

func containsAny(all []*siteKind, some ...*siteKind) bool {
	return slices.ContainsFunc(all, func(k *siteKind) bool { return slices.Contains(some, k) })
}
