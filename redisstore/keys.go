package redisstore

import (
	"strings"

	"github.com/holdfast-go/holdfast/internal/percent"
)

// What a store writes lies under these names, where P and N are prefix and name, escaped:
//
//	holdfast:{P|N}        the line of a name; with :r, :o and :d behind it the rest of a line of several claims
//	holdfast:{P}:mark     the highest ticket
//	holdfast:{P}:run      the server's run, and since when
//	holdfast:{P}:id       the store's identity
//	holdfast:{P}:push:X   the channel of one process
//
// The braces make all keys of a name lie in one slot of a cluster. There, mark, run and channel are for one slot each,
// with a tag T that makes them lie in it (see tagOf):
//
//	holdfast:{T}:mark:P
//	holdfast:{T}:run:P
//	holdfast:{T}:push:P:X
const (
	keyRoot = "holdfast:{"
	keyEnd  = "}"
)

// escaped are the characters that the keys themselves, hash tags and patterns give a meaning to. A key has none that is
// special in a pattern.
const escaped percent.Set = `{}|*?[]\`

// keySpace makes the keys of one tenant.
type keySpace struct {
	tenant string // P
	lines  string // holdfast:{P|
	mark   string
	run    string
	id     string
	pushes string // the beginning of its channels
}

func newKeySpace(prefix string) keySpace {
	p := escaped.Escape(prefix)
	own := keyRoot + p + keyEnd + ":"
	return keySpace{
		tenant: p,
		lines:  keyRoot + p + "|",
		mark:   own + "mark",
		run:    own + "run",
		id:     own + "id",
		pushes: own + "push:",
	}
}

// A shelf is what is for many names, and lies where their lines lie.
type shelf struct {
	slot    int // in a cluster
	mark    string
	run     string
	channel string // what is written with a claim about where its pushes go; a script makes the topic of it
	topic   string // where they go
}

// shelf is the only one of a single server.
func (k *keySpace) shelf(channel string) *shelf {
	return &shelf{mark: k.mark, run: k.run, channel: channel, topic: k.pushes + channel}
}

// shelfIn is that of a slot in a cluster.
func (k *keySpace) shelfIn(slot int, channel string) *shelf {
	tag := tagOf(slot)
	own := keyRoot + tag + keyEnd + ":"
	return &shelf{slot, own + "mark:" + k.tenant, own + "run:" + k.tenant, tag + "/" + channel, own + "push:" + k.tenant + ":" + channel}
}

// line is the first key of a name's line. The scripts make the others of it.
func (k *keySpace) line(name string) string { return k.lines + escaped.Escape(name) + keyEnd }

// name is the name whose line has this key, if it is the first key of a line of this tenant.
func (k *keySpace) name(key string) (string, bool) {
	rest, ok := strings.CutPrefix(key, k.lines)
	if !ok {
		return "", false
	}
	rest, ok = strings.CutSuffix(rest, keyEnd)
	if !ok || rest == "" {
		return "", false
	}
	return percent.Unescape(rest)
}
