package redisstore

import (
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/holdfast-go/holdfast/internal/endpoint"
	"github.com/holdfast-go/holdfast/internal/rediswire"
	"github.com/holdfast-go/holdfast/internal/tlsurl"
	"github.com/holdfast-go/holdfast/store"
)

const (
	redisPort    = "6379"
	sentinelPort = "26379"
)

// parse reads a URL, and applies options after its parameters.
func parse(at store.Location, more ...Option) (options rueidis.ClientOption, set settings, err error) {
	names := append(allowed(at.Scheme), "startup-delay", "eviction", "mode", "retry", "drift", "wait-replicas",
		"wait-timeout", "password-file")
	if err := at.Allow(names...); err != nil {
		return options, set, err
	}
	set.prefix = at.Prefix
	if at.Query.Has("startup-delay") {
		if set.guard, err = time.ParseDuration(at.Query.Get("startup-delay")); err != nil || set.guard < 0 {
			return options, set, errors.New("startup-delay is a duration, as in startup-delay=60s")
		}
	}
	if set.credentials, err = rediswire.ParseCredentials(at); err != nil {
		return options, set, err
	}
	if set.replicaSettings, err = parseReplicas(at.Query); err != nil {
		return options, set, err
	}
	if err := set.parseMode(at); err != nil {
		return options, set, err
	}
	switch at.Query.Get("eviction") {
	case "refuse":
		set.refuseEviction = true
	case "", "warn":
	default:
		return options, set, errors.New("eviction is warn or refuse")
	}
	set.inCluster = strings.HasSuffix(at.Scheme, "+cluster")
	set.apply(more)
	err = reach(at, &options)
	return options, set, err
}

// parseMode reads the parameters for the mode.
func (s *settings) parseMode(at store.Location) (err error) {
	switch at.Query.Get("mode") {
	case "plain":
		s.forPlain().on = true
	case "", "queue":
		if at.Query.Has("retry") || at.Query.Has("drift") {
			return errors.New("retry and drift are for mode=plain")
		}
		return nil
	default:
		return errors.New("mode is queue or plain")
	}
	if at.Query.Has("retry") {
		if s.plain.retry, err = time.ParseDuration(at.Query.Get("retry")); err != nil {
			s.plain.retry = 0 // check says what it should be
		}
	}
	if at.Query.Has("drift") {
		if s.plain.drift, err = strconv.ParseFloat(at.Query.Get("drift"), 64); err != nil {
			s.plain.drift = -1
		}
	}
	return nil
}

// product returns the product that a scheme names, redis or valkey, and whether it uses TLS.
func product(scheme string) (name string, secure bool) {
	base, _, _ := strings.Cut(scheme, "+")
	if name = "redis"; strings.HasPrefix(base, "valkey") {
		name = "valkey"
	}
	return name, base != name
}

// allowed returns the parameters for connections that a URL of this scheme may have.
func allowed(scheme string) []string {
	var names []string
	if _, secure := product(scheme); secure {
		names = append(names, tlsurl.Parameters...)
	}
	switch _, form, _ := strings.Cut(scheme, "+"); form {
	case "unix":
		names = append(names, "db")
	case "sentinel":
		names = append(names, "db", "sentinel-user", "sentinel-password")
	}
	return names
}

// reach reads from a URL how to connect to the server.
func reach(at store.Location, options *rueidis.ClientOption) (err error) {
	options.Username = at.User.Username()
	options.Password, _ = at.User.Password()
	name, secure := product(at.Scheme)
	if secure {
		if options.TLSConfig, err = tlsurl.Config(at); err != nil {
			return err
		}
	}
	db := at.Query.Get("db")
	switch _, form, _ := strings.Cut(at.Scheme, "+"); form {
	case "unix":
		if len(at.Hosts) > 0 || !strings.HasPrefix(at.Path, "/") {
			return errors.New("write " + at.Scheme + ":///path/of/the/socket, with three slashes")
		}
		options.InitAddress = []string{at.Path}
	case "cluster":
		if len(at.Hosts) == 0 || strings.Trim(at.Path, "/") != "" {
			return errors.New("write " + at.Scheme + "://h1:6379,h2:6379,h3:6379; a cluster has no databases")
		}
		options.InitAddress = endpoint.WithPorts(at.Hosts, redisPort)
	case "sentinel":
		if err := reachSentinels(at, options); err != nil {
			return err
		}
	default:
		if db = strings.Trim(at.Path, "/"); len(at.Hosts) != 1 {
			return fmt.Errorf("a %s store has one host, as in %s://127.0.0.1:6379", name, at.Scheme)
		}
		options.InitAddress = endpoint.WithPorts(at.Hosts, redisPort)
	}
	if db == "" {
		return nil
	}
	if options.SelectDB, err = strconv.Atoi(db); err != nil || options.SelectDB < 0 {
		return fmt.Errorf("the database is a number, as in %s://127.0.0.1:6379/0", name)
	}
	return nil
}

// reachSentinels reads the sentinels and the name of the master.
func reachSentinels(at store.Location, options *rueidis.ClientOption) error {
	name := strings.Trim(at.Path, "/")
	if len(at.Hosts) == 0 || name == "" || strings.Contains(name, "/") {
		return errors.New("write " + at.Scheme + "://s1:26379,s2:26379,s3:26379/NAME, " +
			"with the name of the master at the sentinels")
	}
	options.InitAddress = endpoint.WithPorts(at.Hosts, sentinelPort)
	options.Sentinel = rueidis.SentinelOption{
		MasterSet: name,
		TLSConfig: options.TLSConfig,
		Username:  at.Query.Get("sentinel-user"),
		Password:  at.Query.Get("sentinel-password"),
	}
	return nil
}

// parseReplicas reads the parameters for replicas.
func parseReplicas(query url.Values) (r replicaSettings, err error) {
	if !query.Has("wait-replicas") {
		if query.Has("wait-timeout") {
			return r, errors.New("wait-timeout goes with wait-replicas")
		}
		return r, nil
	}
	if r.replicas, err = strconv.Atoi(query.Get("wait-replicas")); err != nil || r.replicas < 1 {
		return r, errors.New("wait-replicas is a number, as in wait-replicas=2")
	}
	r.patience = defaultPatience
	if query.Has("wait-timeout") {
		if r.patience, err = time.ParseDuration(query.Get("wait-timeout")); err != nil || r.check() != nil {
			return r, fmt.Errorf("wait-timeout is a duration of at most %v, as in wait-timeout=500ms", mostPatience)
		}
	}
	return r, nil
}

// displayName returns the name of a store for messages.
func displayName(scheme string, options rueidis.ClientOption) string {
	name, _ := product(scheme)
	name += " at " + strings.Join(options.InitAddress, ",")
	if master := options.Sentinel.MasterSet; master != "" {
		name += "/" + master
	}
	return name
}
