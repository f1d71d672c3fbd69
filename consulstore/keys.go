package consulstore

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/sessionqueue"
)

// A keySpace makes the keys of one tenant.
type keySpace struct {
	queues   string // of a queue are the keys under queues + its name, escaped, + a slash
	sessions string
	id       string
}

// root is the prefix of all keys.
const root = "holdfast/"

// newKeySpace returns the keys of the tenant with a prefix.
func newKeySpace(prefix string) keySpace {
	tenant := root
	if prefix != "" {
		tenant += "tenant/" + escape(prefix) + "/"
	}
	return keySpace{queues: tenant + "line/", sessions: tenant + "session/", id: tenant + "id"}
}

// queue returns the prefix of the keys of a queue.
func (k keySpace) queue(name string) string { return k.queues + escape(name) + "/" }

// isQueue reports whether key is the prefix of a queue, rather than a key.
func isQueue(key string) bool { return strings.HasPrefix(key, root) && strings.HasSuffix(key, "/") }

// claim returns the key of a claim.
func (k keySpace) claim(name string, id store.ID) string { return k.queue(name) + id.String() }

// name returns the name of the queue with this prefix. It reports false if it is not one.
func (k keySpace) name(line string) (string, bool) {
	rest, ok := strings.CutPrefix(line, k.queues)
	if !ok {
		return "", false
	}
	name, err := url.PathUnescape(strings.ReplaceAll(strings.TrimSuffix(rest, "/"), "~", "%"))
	return name, err == nil && k.queue(name) == line
}

// unescaped completes the result of url.QueryEscape: it writes ~ and spaces as %XX.
var unescaped = strings.NewReplacer("~", "%7E", "+", "%20")

// escape writes a name as one component of a key, with ~XX for what is not a letter, a digit or one of - _ and a dot. A
// % would do for Consul's store, but not for its HTTP interface, which cleans and checks paths: that takes no component
// of dots either.
func escape(name string) string {
	escaped := unescaped.Replace(url.QueryEscape(name))
	if strings.HasPrefix(escaped, ".") {
		escaped = "%2E" + escaped[1:]
	}
	return strings.ReplaceAll(escaped, "%", "~")
}

// encodeValue returns the value of a claim's key: the format, the claim's demand, and data.
func encodeValue(ask store.Demand, data string) string {
	return sessionqueue.Format + sessionqueue.EncodeDemand(ask) + " " + strings.TrimPrefix(data, sessionqueue.Format)
}

// decodeValue parses the result of encodeValue.
func decodeValue(e *entry) (ask store.Demand, data string, err error) {
	version, rest, _ := strings.Cut(string(e.Value), " ")
	if number := strings.TrimSpace(sessionqueue.Format); version != number {
		if version != "" && strings.Trim(version, "0123456789") == "" {
			return ask, "", fmt.Errorf("%w: the key %s", store.ErrFormat, store.Quote(e.Key))
		}
		return ask, "", unreadable(e)
	}
	text, data, _ := strings.Cut(rest, " ")
	ask, ok := sessionqueue.DecodeDemand(text)
	if !ok {
		return ask, "", unreadable(e)
	}
	return ask, sessionqueue.Format + data, nil
}

// unreadable returns the error of a key whose value cannot be interpreted.
func unreadable(e *entry) error {
	return fmt.Errorf("the key %s %w", store.Quote(e.Key), sessionqueue.ErrUnreadable)
}

// decodeQueue returns the claims of a queue in the order in which Consul has made their keys. A claim that can't be
// decoded is an error: no claim may be granted from a queue that is understood only in part.
func decodeQueue(entries []entry) ([]sessionqueue.Entry, error) {
	claims, _, err := decodeNodes(entries, "")
	if err != nil {
		return nil, err
	}
	return claims, nil
}

// decodeNodes returns the claims of a queue in their order, and the contents of their nodes, of which those of the
// session with the ID own are its own. If some can't be decoded, it returns the others with an error.
func decodeNodes(entries []entry, own string) (claims []sessionqueue.Entry, nodes []sessionqueue.Node, err error) {
	slices.SortFunc(entries, func(a, b entry) int { return cmp.Compare(a.CreateIndex, b.CreateIndex) })
	for i := range entries {
		claim, node, failed := decodeClaim(&entries[i])
		node.Own = entries[i].Session == own
		switch {
		case failed == nil:
			claims, nodes = append(claims, claim), append(nodes, node)
		case err == nil || errors.Is(failed, store.ErrFormat): // what is newer says more than what can't be read
			err = failed
		}
	}
	return claims, nodes, err
}

// decodeClaim returns the claim of a key, and the content of its node. A claim that was detached or attached has its ID
// in its value: its key has the ID that it joined with.
func decodeClaim(e *entry) (claim sessionqueue.Entry, node sessionqueue.Node, err error) {
	claim.Key, node.Ticket, node.Version = e.Key, e.CreateIndex, e.ModifyIndex
	if claim.Demand, node.Data, err = decodeValue(e); err != nil {
		return claim, node, err
	}
	id, detached, moved := sessionqueue.Moved(node.Data)
	if joined := e.Key[strings.LastIndexByte(e.Key, '/')+1:]; claim.ID.UnmarshalText([]byte(joined)) != nil ||
		e.Session == "" {
		err = unreadable(e)
	}
	if moved {
		claim.ID = id
	}
	if node.ID = claim.ID; detached {
		node.Lease = e.Session
	}
	return claim, node, err
}
