package etcdstore

import (
	"slices"
	"strconv"
	"strings"

	"go.etcd.io/etcd/client/v3"

	"github.com/holdfast-go/holdfast/internal/percent"
	"github.com/holdfast-go/holdfast/store"
)

// The keys that a store writes, where P and N are prefix and name, escaped:
//
//	holdfast/P/line/N/LEASE-SLOT   a claim in the queue of a name, under the lease of its client's session, or under
//	                               one of its own if it is detached; LEASE is that of the session that joined with it
//	holdfast/P/session/LEASE       a session, under its lease
//	holdfast/P/id                  the store's identity
//
// So a tenant is one range of keys, for a role in etcd, and so is a queue.
const root = "holdfast/"

// escaped has the character with a meaning in these keys.
const escaped percent.Set = "/"

// A keySpace makes the keys of one tenant.
type keySpace struct {
	queues   string // the beginning of all claims
	sessions string
	id       string
}

func newKeySpace(prefix string) keySpace {
	p := root + escaped.Escape(prefix) + "/"
	return keySpace{queues: p + "line/", sessions: p + "session/", id: p + "id"}
}

// queue returns the prefix of the keys of all claims in a name's queue.
func (k *keySpace) queue(name string) string { return k.queues + escaped.Escape(name) + "/" }

var (
	oldestFirst = clientv3.WithSort(clientv3.SortByCreateRevision, clientv3.SortAscend)
	newestFirst = clientv3.WithSort(clientv3.SortByCreateRevision, clientv3.SortDescend)
)

// readLine returns the operation that reads the claims of a name.
func (k *keySpace) readLine(name string, options ...clientv3.OpOption) clientv3.Op {
	return clientv3.OpGet(k.queue(name), append(options, clientv3.WithPrefix())...)
}

// readHead returns the operation that reads the first claim of a name.
func (k *keySpace) readHead(name string) clientv3.Op {
	return k.readLine(name, oldestFirst, clientv3.WithLimit(1))
}

// claim returns the key of a claim in a slot of its session.
func (k *keySpace) claim(name string, of *lease, slot int) string {
	return k.queue(name) + of.name + "-" + strconv.Itoa(slot)
}

// name returns the name in whose queue this key is. It reports false if it is not the key of a claim.
func (k *keySpace) name(key string) (string, bool) {
	rest, ours := strings.CutPrefix(key, k.queues)
	name, _, ofClaim := strings.Cut(rest, "/")
	if !ours || !ofClaim || name == "" {
		return "", false
	}
	return percent.Unescape(name)
}

// keySlots assigns a slot to each claim of a session, by name: a claim has the first that is free. Keys are reused on
// purpose. etcd remembers every key that ever existed until its history is compacted, and reads of a queue scan all of
// them: with a new key for each claim, a lock would become slower with every use.
//
// A claim differs from an earlier one with the same key by the key's create revision. A slot is free again only when it
// is certain that no claim of the session has a key there, and that no request in flight can create one. A claim that
// was detached keeps its key. Join finds that out, and moves on to another slot.
type keySlots map[string][]store.ID // which claim has each slot; the zero ID: none

// reserve returns the slot of a claim, and assigns one if it has none. It is the same until it is released.
func (k keySlots) reserve(name string, id store.ID) int {
	slots := k[name]
	slot := slices.Index(slots, id)
	if slot < 0 {
		slot = slices.Index(slots, store.ID{})
	}
	if slot < 0 {
		slot = len(slots)
		slots = append(slots, id)
	}
	slots[slot] = id
	k[name] = slots
	return slot
}

// otherClaim stands in keySlots for a slot whose key has a claim that was detached. That is forgotten with the last
// claim of this client in the queue.
var otherClaim = store.ID{0xff, 'd', 'e', 't', 'a', 'c', 'h', 'e', 'd'}

// move assigns the first slot to a claim that is neither assigned nor taken by a claim that was detached.
func (k keySlots) move(name string, id store.ID, taken func(slot int) bool) {
	slots := k[name]
	for i := range slots {
		if slots[i] == id || slots[i] == otherClaim {
			slots[i] = store.ID{}
		}
	}
	for slot := 0; ; slot++ {
		if slot == len(slots) {
			slots = append(slots, store.ID{})
		}
		switch {
		case slots[slot] != store.ID{}:
		case taken(slot):
			slots[slot] = otherClaim
		default:
			slots[slot] = id
			k[name] = slots
			return
		}
	}
}

// release frees the slot of a claim, if it has one.
func (k keySlots) release(name string, id store.ID) {
	slots := k[name]
	if slot := slices.Index(slots, id); slot >= 0 {
		slots[slot] = store.ID{}
	}
	if !slices.ContainsFunc(slots, func(id store.ID) bool { return id != store.ID{} && id != otherClaim }) {
		delete(k, name)
	}
}
