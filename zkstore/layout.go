package zkstore

import (
	"cmp"
	"encoding/hex"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/holdfast-go/holdfast/internal/percent"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/sessionqueue"
)

// A layout maps names to the paths of their queues, and claims to the names of nodes. A queue is the children of one
// node. Everything that decides which claims hold is in their names, so that one request reads it.
type layout interface {
	// path returns the path of a name's queue.
	path(name string) string

	// name returns the name whose queue has this path.
	name(path string) (string, bool)

	// top returns the path that all queues are under. It is empty for the root.
	top() string

	// foreign reports whether other programs have nodes in the queues too. Then the data of a queue's node is theirs,
	// and a new node may come ahead of existing ones.
	foreign() bool

	// mayHaveQueues reports whether a node can be a queue, or have queues under it.
	mayHaveQueues(path string) bool

	// number returns the node that is written whenever a claim is made in a queue, so that the result has the number of
	// the transaction. If it is the queue's own node, the result also has the number of its children.
	number(line string) string

	// node returns the beginning of the name of a claim's node. The server appends the sequence number.
	node(id store.ID, ask store.Demand) (string, error)

	// shrunk returns the name of the node that marks a claim as having fewer units. It is empty if the layout has none.
	shrunk(id store.ID, units int32) string

	// parse parses the name of a child. ok is false for a child that does not belong to the queue.
	parse(child string) (e entry, ok bool, err error)
}

// An entry is a child of a queue's node.
type entry struct {
	sessionqueue.Entry       // the key is its name
	seq                int32 // the sequence number, which begins again after 2^32 nodes
	marker             bool  // it says that the claim with this ID has no more than its units
}

// parseQueue returns the claims of a queue in their order. A name that can't be parsed is an error: no claim may be
// granted from a queue that is understood only in part.
func parseQueue(l layout, children []string) ([]sessionqueue.Entry, error) {
	entries := make([]entry, 0, len(children))
	var shrunk []entry
	for _, child := range children {
		switch e, ok, err := l.parse(child); {
		case err != nil:
			return nil, err
		case ok && e.marker:
			shrunk = append(shrunk, e)
		case ok:
			entries = append(entries, e)
		}
	}
	for _, m := range shrunk {
		if at := slices.IndexFunc(entries, func(e entry) bool { return e.ID == m.ID }); at >= 0 {
			entries[at].Demand.Units = min(entries[at].Demand.Units, m.Demand.Units)
		}
	}
	slices.SortFunc(entries, func(a, b entry) int {
		return cmp.Or(cmp.Compare(a.seq-b.seq, 0), cmp.Compare(b.Demand.Units, a.Demand.Units))
	})
	line := make([]sessionqueue.Entry, len(entries))
	for i, e := range entries {
		line[i] = e.Entry
	}
	return line, nil
}

// ownLayout is Holdfast's own layout. A claim's node is named FORMAT-ID-KUNITS.LIMIT-SEQUENCE, where K is l for a lock
// and s for a semaphore. A claim with fewer units than at first has another node, FORMAT-ID-to-UNITS.
type ownLayout struct {
	queues string // the path that all queues are under
}

// nodeFormat is the format of names. A name that begins with another number is in another format.
const nodeFormat = "1"

// escaped are the characters that ZooKeeper or the layout gives a meaning to, beside control characters.
const escaped percent.Set = "/."

// escape returns a name as one component of a path. ZooKeeper refuses some characters that are not ASCII.
func escape(name string) string {
	var b strings.Builder
	for _, c := range []byte(escaped.Escape(name)) {
		if c < 0x80 {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	return b.String()
}

func (l ownLayout) path(name string) string { return l.queues + "/" + escape(name) }

func (l ownLayout) name(path string) (string, bool) {
	component, ok := strings.CutPrefix(path, l.queues+"/")
	if !ok {
		return "", false
	}
	return percent.Unescape(component)
}

func (l ownLayout) top() string { return l.queues }

func (ownLayout) foreign() bool { return false }

func (l ownLayout) mayHaveQueues(path string) bool {
	return !strings.Contains(path[len(l.queues)+1:], "/")
}

func (ownLayout) number(line string) string { return line }

func (ownLayout) node(id store.ID, ask store.Demand) (string, error) {
	return fmt.Sprintf("%s-%v-%s-", nodeFormat, id, sessionqueue.EncodeDemand(ask)), nil
}

func (ownLayout) shrunk(id store.ID, units int32) string {
	return fmt.Sprintf("%s-%v-to-%d", nodeFormat, id, units)
}

func (ownLayout) parse(child string) (e entry, ok bool, err error) {
	version, rest, _ := strings.Cut(child, "-")
	if version != nodeFormat && version != "" && strings.Trim(version, "0123456789") == "" {
		return e, false, fmt.Errorf("%w: the node %s", store.ErrFormat, store.Quote(child))
	}
	e = entry{Entry: sessionqueue.Entry{Key: child}}
	id, rest, _ := strings.Cut(rest, "-")
	if version == nodeFormat && e.ID.UnmarshalText([]byte(id)) == nil && e.parseAsk(rest) {
		return e, true, nil
	}
	return e, false, fmt.Errorf("the node %s %w", store.Quote(child), sessionqueue.ErrUnreadable)
}

// parseAsk parses the demand, which follows the ID. It reports false if it is malformed.
func (e *entry) parseAsk(text string) bool {
	if units, ok := strings.CutPrefix(text, "to-"); ok {
		e.marker = true
		return sessionqueue.ParseInt32(units, &e.Demand.Units) && e.Demand.Units > 0
	}
	ask, seq, _ := strings.Cut(text, "-")
	var ok bool
	e.Demand, ok = sessionqueue.DecodeDemand(ask)
	return ok && sessionqueue.ParseInt32(seq, &e.seq)
}

// curatorLayout is that of Curator's recipes: the name of a lock is its path, and the nodes of a queue are named
// _c_UUID-lock-SEQUENCE for a mutex, or _c_UUID-__WRIT__SEQUENCE and _c_UUID-__READ__SEQUENCE for a read-write lock.
//
// A writer of Curator that becomes a reader, from version 5.5 on, makes a node with the writer's sequence number, and
// so ahead of all that wait. Other children of a queue don't count here, as the nodes of locks whose path goes on.
// Curator sorts them by their whole names, and so waits behind one that begins with less than a digit, as - or %;
// go-zookeeper's Lock fails beside any. So paths that go on after that of a lock are best left alone.
//
// Curator takes negative sequence numbers, which follow 2^31-1, for the least. So it does not exclude anything then.
type curatorLayout struct {
	root   string // the path that names begin at
	shared bool   // a read-write lock's
}

// The words that Curator has in the names of nodes. go-zookeeper's Lock has the first as well.
const (
	mutexWord  = "lock-"
	writerWord = "__WRIT__"
	readerWord = "__READ__"
)

// sequence is how servers write sequence numbers.
const sequence = "%010d"

// reserved is the component under which Holdfast has its own nodes.
const reserved = "holdfast"

func (l curatorLayout) path(name string) string {
	components := strings.Split(name, "/")
	for i, component := range components {
		_, isClaim, _ := l.parse(component)
		taken := i == 0 && (component == reserved || component == "zookeeper")
		switch {
		case component == "":
			component = "%"
		case component == "." || component == ".." || taken || isClaim:
			last := len(component) - 1
			component = fmt.Sprintf("%s%%%02X", escapeComponent(component[:last]), component[last])
		default:
			component = escapeComponent(component)
		}
		components[i] = component
	}
	return l.root + "/" + strings.Join(components, "/")
}

// escapeComponent escapes the characters that ZooKeeper does not accept in a path.
func escapeComponent(text string) string {
	var b strings.Builder
	for _, r := range percent.Set("").Escape(text) {
		if isRefused(r) {
			for _, c := range []byte(string(r)) {
				fmt.Fprintf(&b, "%%%02X", c)
			}
			continue
		}
		b.WriteRune(r)
	}
	return b.String()
}

// name implements layout. It reports false for a path with a % that path would not write.
func (l curatorLayout) name(path string) (string, bool) {
	rest, ok := strings.CutPrefix(path, l.root+"/")
	if !ok {
		return "", false
	}
	components := strings.Split(rest, "/")
	for i, component := range components {
		if component == "%" {
			component = ""
		}
		if components[i], ok = percent.Unescape(component); !ok {
			return "", false
		}
	}
	name := strings.Join(components, "/")
	return name, l.path(name) == path
}

func (l curatorLayout) top() string { return l.root }

func (curatorLayout) foreign() bool { return true }

func (l curatorLayout) mayHaveQueues(at string) bool {
	_, isClaim, _ := l.parse(path.Base(at))
	return !isClaim && at != l.root+"/"+reserved && at != l.root+"/zookeeper"
}

// number implements layout. It is not the queue's own node, whose data belongs to other programs.
func (l curatorLayout) number(string) string { return l.root + "/" + reserved + "/number" }

func (l curatorLayout) node(id store.ID, ask store.Demand) (string, error) {
	word := mutexWord
	switch {
	case ask.Kind != store.Lock || !l.shared && !ask.Exclusive():
		return "", fmt.Errorf("%w: Curator's layout has no semaphores, and readers only with layout=curator-rw",
			store.ErrUnsupported)
	case l.shared && ask.Exclusive():
		word = writerWord
	case l.shared:
		word = readerWord
	}
	x := hex.EncodeToString(id[:])
	return fmt.Sprintf("_c_%s-%s-%s-%s-%s-%s", x[:8], x[8:12], x[12:16], x[16:20], x[20:], word), nil
}

func (curatorLayout) shrunk(store.ID, int32) string { return "" }

func (l curatorLayout) parse(child string) (e entry, ok bool, err error) {
	all := store.Demand{Kind: store.Lock, Units: store.MaxReaders, Limit: store.MaxReaders}
	e = entry{Entry: sessionqueue.Entry{Key: child, Demand: all}}
	words := []string{mutexWord}
	if l.shared {
		words = []string{writerWord, readerWord}
	}
	for _, word := range words {
		at := strings.LastIndex(child, word)
		if at < 0 {
			continue
		}
		before, seq := child[:at], child[at+len(word):]
		if !sessionqueue.ParseInt32(seq, &e.seq) || fmt.Sprintf(sequence, e.seq) != seq {
			continue
		}
		if word == readerWord {
			e.Demand.Units = 1
		}
		uuid := strings.ReplaceAll(strings.TrimPrefix(before, "_c_"), "-", "")
		if e.ID.UnmarshalText([]byte(uuid)) != nil {
			e.ID = store.ID{} // made without protection
		}
		return e, true, nil
	}
	return e, false, nil
}
