package etcdstore

import (
	"strings"

	"github.com/holdfast-go/holdfast/internal/percent"
)

// What a store writes lies under these keys, where P and N are prefix and name, escaped:
//
//	holdfast/P/line/N/LEASE-SEAT   a claim in the line of a name, under the lease of its client's session
//	holdfast/P/session/LEASE       a session, under its lease
//	holdfast/P/id                  the store's identity
//
// So a tenant is one range of keys, for a role in etcd, and so is a line.
const root = "holdfast/"

// escaped is the character that the keys themselves give a meaning to.
const escaped percent.Set = "/"

// keySpace makes the keys of one tenant.
type keySpace struct {
	lines    string // the beginning of all claims
	sessions string
	id       string
}

func newKeySpace(prefix string) keySpace {
	p := root + escaped.Escape(prefix) + "/"
	return keySpace{lines: p + "line/", sessions: p + "session/", id: p + "id"}
}

// line is the beginning of the keys of all claims in a name's line.
func (k *keySpace) line(name string) string { return k.lines + escaped.Escape(name) + "/" }

// name is the name in whose line the claim with this key stands.
func (k *keySpace) name(key string) (string, bool) {
	rest, ok := strings.CutPrefix(key, k.lines)
	if !ok {
		return "", false
	}
	name, _, ok := strings.Cut(rest, "/")
	if !ok || name == "" {
		return "", false
	}
	return percent.Unescape(name)
}
