package redisstore

import (
	"strconv"
	"strings"
	"sync"

	"github.com/holdfast-go/holdfast/internal/percent"
)

// The names of the keys that a store writes, where P and N are prefix and name, escaped:
//
//	holdfast:{P|N}        the queue of a name; with :r, :o and :d appended, the rest of a queue of several claims
//	holdfast:{P}:mark     the highest ticket
//	holdfast:{P}:run      the server's run, and since when
//	holdfast:{P}:id       the store's identity
//	holdfast:{P}:push:X   the channel of one process
//
// The braces put all keys of a name into one slot of a cluster. In a cluster, mark, run and channel exist once for each
// slot, with a tag T that puts them there (see tagOf):
//
//	holdfast:{T}:mark:P
//	holdfast:{T}:run:P
//	holdfast:{T}:push:P:X
const (
	keyRoot = "holdfast:{"
	keyEnd  = "}"
)

// escaped has the characters with a meaning in these keys, in hash tags or in patterns. So no key has a character that
// is special in a pattern.
const escaped percent.Set = `{}|*?[]\`

// A keySpace makes the keys of one tenant.
type keySpace struct {
	tenant string // P
	lines  string // holdfast:{P|
	mark   string
	run    string
	id     string
	pushes string // the beginning of its channels
}

// newKeySpace returns the keys of the tenant with a prefix.
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

// slotKeys has the keys and the channel that many names share, in the slot of their queues.
type slotKeys struct {
	slot    int // in a cluster
	mark    string
	run     string
	channel string // what is written with a claim about where its pushes go; a script makes the topic of it
	topic   string // where they go
}

// only returns the slotKeys of a single server.
func (k *keySpace) only(channel string) *slotKeys {
	return &slotKeys{mark: k.mark, run: k.run, channel: channel, topic: k.pushes + channel}
}

// in returns the slotKeys of a slot in a cluster.
func (k *keySpace) in(slot int, channel string) *slotKeys {
	tag := tagOf(slot)
	own := keyRoot + tag + keyEnd + ":"
	return &slotKeys{
		slot:    slot,
		mark:    own + "mark:" + k.tenant,
		run:     own + "run:" + k.tenant,
		channel: tag + "/" + channel,
		topic:   own + "push:" + k.tenant + ":" + channel,
	}
}

// line returns the first key of the queue of a name. The scripts derive the other keys from it.
func (k *keySpace) line(name string) string { return k.lines + escaped.Escape(name) + keyEnd }

// name returns the name whose queue has this first key. It reports false if it is not such a key of this tenant.
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

// slotCount is the number of slots of a Redis cluster. Each key belongs to one slot, and each slot to one master.
const slotCount = 16384

// slotOf returns the slot of a key: that of its hash tag, if it has one.
func slotOf(key string) int {
	if _, rest, ok := strings.Cut(key, "{"); ok {
		if tag, _, ok := strings.Cut(rest, "}"); ok && tag != "" {
			key = tag
		}
	}
	return int(crc16(key)) % slotCount
}

// crc16 returns the checksum that Redis uses for slots: CRC-16/XMODEM.
func crc16(s string) (crc uint16) {
	for i := range len(s) {
		crc ^= uint16(s[i]) << 8
		for range 8 {
			if crc&0x8000 != 0 {
				crc = crc<<1 ^ 0x1021
			} else {
				crc <<= 1
			}
		}
	}
	return crc
}

// tagOf returns the hash tag that puts the store's own keys into a slot: the smallest number, written with digits and
// letters, that belongs there. All clients must use the same tag.
func tagOf(slot int) string { return strconv.FormatUint(uint64(tags()[slot]), tagBase) }

const tagBase = 36

var tags = sync.OnceValue(func() *[slotCount]uint32 {
	var table [slotCount]uint32
	var known [slotCount]bool
	for n, left := uint32(0), slotCount; left > 0; n++ {
		if slot := slotOf(strconv.FormatUint(uint64(n), tagBase)); !known[slot] {
			table[slot], known[slot] = n, true
			left--
		}
	}
	return &table
})
