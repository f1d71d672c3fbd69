package verify

import (
	"errors"
	"slices"
	"strings"

	"github.com/holdfast-go/holdfast/internal/endpoint"
	"github.com/holdfast-go/holdfast/lab/proxy"
	"github.com/holdfast-go/holdfast/store"
)

// ports has the default ports of stores whose servers can be reached through a proxy: the client connects only to the
// hosts of the URL, and TLS does not check their names.
var ports = map[string]string{
	"redis": "6379", "valkey": "6379", "redlock": "6379",
	"postgres": "5432", "postgresql": "5432", "mysql": "3306", "mariadb": "3306",
	"etcd": "2379", "zk": "2181", "consul": "8500",
}

// unproxied returns why a store's servers cannot be reached through a proxy, or "".
func unproxied(at store.Location) string {
	switch _, plain := ports[at.Scheme]; {
	case at.Scheme == "sqlite":
		return "a file has no connections"
	case strings.Contains(at.Scheme, "sentinel"), strings.Contains(at.Scheme, "cluster"):
		return "the servers themselves say where to connect to"
	case !plain:
		return "a proxy would have another name than the certificate, or the store is not reached by TCP"
	case len(at.Hosts) == 0:
		return "the URL names no host"
	}
	if slices.ContainsFunc([]string{"host", "socket", "listen"}, at.Query.Has) {
		return "a parameter of the URL says where to connect to"
	}
	if slices.ContainsFunc([]string{"tls", "ca", "cert", "key", "server-name"}, at.Query.Has) ||
		strings.HasPrefix(at.Query.Get("sslmode"), "verify") {
		return "a proxy would have another name than the certificate"
	}
	return ""
}

// ways are the connections of one worker to the servers, each through a proxy of its own.
type ways []*proxy.Proxy

// newWays starts a proxy for each host.
func newWays(at store.Location) (w ways, err error) {
	for _, host := range endpoint.WithPorts(at.Hosts, ports[at.Scheme]) {
		p, err := proxy.Start("tcp", host)
		if err != nil {
			return nil, errors.Join(err, w.Close())
		}
		w = append(w, p)
	}
	return w, nil
}

// hosts returns the addresses of the proxies.
func (w ways) hosts() []string {
	hosts := make([]string, len(w))
	for i, p := range w {
		hosts[i] = p.Addr()
	}
	return hosts
}

// each applies a fault to all proxies and returns the function that undoes it.
func (w ways) each(do func(*proxy.Proxy) (undo func())) (undo func()) {
	var undos []func()
	for _, p := range w {
		undos = append(undos, do(p))
	}
	return func() {
		for _, undo := range undos {
			undo()
		}
	}
}

// Close closes all proxies.
func (w ways) Close() error {
	var failed error
	for _, p := range slices.Backward(w) {
		failed = errors.Join(failed, p.Close())
	}
	return failed
}
