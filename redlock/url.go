package redlock

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/holdfast-go/holdfast/internal/endpoint"
	"github.com/holdfast-go/holdfast/internal/rediswire"
	"github.com/holdfast-go/holdfast/internal/tlsurl"
	"github.com/holdfast-go/holdfast/store"
)

const defaultPort = "6379"

// parse reads a URL, and applies options after its parameters. The client options are for all nodes, and InitAddress
// has their addresses.
func parse(at store.Location, more ...Option) (options rueidis.ClientOption, set settings, err error) {
	allowed := []string{"max-ttl", "tokens", "node-timeout", "allow", "password-file"}
	if at.Scheme == "redlocks" {
		allowed = append(allowed, tlsurl.Parameters...)
	}
	if err := at.Allow(allowed...); err != nil {
		return options, set, err
	}
	if set, err = parseSettings(at); err == nil {
		set.apply(more)
		err = set.check()
	}
	if err != nil {
		return options, set, err
	}
	if err := checkCount(len(at.Hosts)); err != nil {
		return options, set, err
	}
	for _, host := range at.Hosts {
		host = endpoint.WithPort(host, defaultPort)
		if slices.Contains(options.InitAddress, host) {
			return options, set, errors.New("a node is named twice: each must be a server of its own")
		}
		options.InitAddress = append(options.InitAddress, host)
	}
	options.Username = at.User.Username()
	options.Password, _ = at.User.Password()
	if at.Scheme == "redlocks" {
		if options.TLSConfig, err = tlsurl.Config(at); err != nil {
			return options, set, err
		}
	}
	if db := strings.Trim(at.Path, "/"); db != "" {
		if options.SelectDB, err = strconv.Atoi(db); err != nil || options.SelectDB < 0 {
			return options, set, errors.New("the database is a number, as in redlock://h1,h2,h3/0")
		}
	}
	return options, set, nil
}

// parseSettings returns the settings from those parameters of a URL that are not about the connection. It returns an
// error if a parameter is invalid, except for durations, which are set to -1 and are refused by the later check.
func parseSettings(at store.Location) (settings, error) {
	set := settings{prefix: at.Prefix, maxTTL: defaultMaxTTL}
	var err error
	if set.credentials, err = rediswire.ParseCredentials(at); err != nil {
		return set, err
	}
	for name, to := range map[string]*time.Duration{"max-ttl": &set.maxTTL, "node-timeout": &set.timeout} {
		if !at.Query.Has(name) {
			continue
		}
		if *to, err = time.ParseDuration(at.Query.Get(name)); err != nil || *to <= 0 {
			*to = -1 // check says what it should be
		}
	}
	switch at.Query.Get("tokens") {
	case "unsaved":
		set.unsaved = true
	case "", "saved":
	default:
		return set, errors.New("tokens is saved or unsaved")
	}
	for word := range strings.SplitSeq(at.Query.Get("allow"), ",") {
		switch word {
		case "replicas", "eviction":
			set.allowed = append(set.allowed, word)
		case "":
		default:
			return set, errors.New("allow is replicas, eviction or both, as in allow=replicas,eviction")
		}
	}
	return set, nil
}

// checkCount returns an error if there must not be n nodes.
func checkCount(n int) error {
	switch {
	case n < 3:
		return fmt.Errorf("redlock needs at least 3 nodes, and these are %d: with fewer, no node may ever fail; "+
			"write redlock://h1,h2,h3, or use redis:// for one server", n)
	case n%2 == 0:
		return fmt.Errorf("redlock needs an odd number of nodes, and these are %d: a majority of them is %d, "+
			"so that no more may fail than of %d; add one or remove one", n, n/2+1, n-1)
	case n > maxNodes:
		return fmt.Errorf("redlock sends each request to all nodes; %d nodes are too many, and %d are the most", n,
			maxNodes)
	}
	return nil
}

const maxNodes = 63
