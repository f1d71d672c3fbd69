package zkstore

import (
	"cmp"
	"encoding/hex"
	"errors"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/holdfast-go/holdfast/internal/percent"
	"github.com/holdfast-go/holdfast/line"
	"github.com/holdfast-go/holdfast/store"
)

// A layout says under which path the line of a name is, and what the names of its nodes mean. A line is the children of
// one node, and everything that decides who holds is in their names: one request reads it.
type layout interface {
	// path returns the path of a name's line.
	path(name string) string

	// name returns the name whose line has this path.
	name(path string) (string, bool)

	// top returns the path that all lines are under. It is empty for the root.
	top() string

	// mayHaveLines reports whether a node can be a line, or have lines under it.
	mayHaveLines(path string) bool

	// node returns what the name of a claim's node begins with. The server appends the sequence number.
	node(id store.ID, ask store.Ask) (string, error)

	// shrunk returns the name of the node which says that a claim has fewer units now. It is empty if that can't be said.
	shrunk(id store.ID, units int32) string

	// parse reads the name of a child. ok is false for one that does not belong to the line.
	parse(child string) (e entry, ok bool, err error)
}

// An entry is a node of a line.
type entry struct {
	node string // its name
	id   store.ID
	ask  store.Ask
	seq  int32 // the sequence number, which begins again after 2^32 nodes

	marker bool // it says that the claim with this ID has no more than ask.Units
}

// parseLine returns the claims of a line in their order. One name that can't be read is an error: a line that is
// understood in part must not be judged.
func parseLine(l layout, children []string) ([]entry, error) {
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
		if at := slices.IndexFunc(entries, func(e entry) bool { return e.id == m.id }); at >= 0 {
			entries[at].ask.Units = min(entries[at].ask.Units, m.ask.Units)
		}
	}
	slices.SortFunc(entries, func(a, b entry) int { return cmp.Compare(a.seq-b.seq, 0) })
	return entries, nil
}

// indexOf returns the place of a node in a line, or -1.
func indexOf(entries []entry, node string) int {
	return slices.IndexFunc(entries, func(e entry) bool { return e.node == node })
}

// mismatch returns the error of a claim that asks for another kind or limit than the first of these has.
func mismatch(ahead []entry, ask store.Ask) error {
	if len(ahead) > 0 && line.Mismatch(ahead[0].ask, ask) {
		return &store.MismatchError{InUse: ahead[0].ask}
	}
	return nil
}

// ownLayout is Holdfast's. A claim's node is named FORMAT-ID-KUNITS.LIMIT-SEQUENCE, where K is l for a lock and s for a
// semaphore. One that has shrunk has a node FORMAT-ID-to-UNITS beside it.
type ownLayout struct {
	lines string // the path that all lines are under
}

// nodeFormat is the format of names. What begins with another number is in another format.
const nodeFormat = "1"

// escaped are the characters that ZooKeeper or the layout gives a meaning to, beside control characters.
const escaped percent.Set = "/."

// escape writes a name as one component of a path. Of what is not ASCII, ZooKeeper refuses a part.
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

func (l ownLayout) path(name string) string { return l.lines + "/" + escape(name) }

func (l ownLayout) name(path string) (string, bool) {
	component, ok := strings.CutPrefix(path, l.lines+"/")
	if !ok {
		return "", false
	}
	return percent.Unescape(component)
}

func (l ownLayout) top() string { return l.lines }

func (l ownLayout) mayHaveLines(path string) bool {
	return !strings.Contains(path[len(l.lines)+1:], "/")
}

var kindLetters = map[store.Kind]string{store.Lock: "l", store.Semaphore: "s"}

func (ownLayout) node(id store.ID, ask store.Ask) (string, error) {
	return fmt.Sprintf("%s-%v-%s%d.%d-", nodeFormat, id, kindLetters[ask.Kind], ask.Units, ask.Limit), nil
}

func (ownLayout) shrunk(id store.ID, units int32) string {
	return fmt.Sprintf("%s-%v-to-%d", nodeFormat, id, units)
}

var errForeign = errors.New("was made by no version of holdfast")

func (ownLayout) parse(child string) (e entry, ok bool, err error) {
	version, rest, _ := strings.Cut(child, "-")
	if version != nodeFormat && version != "" && strings.Trim(version, "0123456789") == "" {
		return e, false, fmt.Errorf("%w: the node %s", store.ErrFormat, store.Quote(child))
	}
	e = entry{node: child}
	id, rest, _ := strings.Cut(rest, "-")
	if version == nodeFormat && e.id.UnmarshalText([]byte(id)) == nil && e.parseAsk(rest) {
		return e, true, nil
	}
	return e, false, fmt.Errorf("the node %s %w", store.Quote(child), errForeign)
}

// parseAsk reads what follows the ID.
func (e *entry) parseAsk(text string) bool {
	if units, ok := strings.CutPrefix(text, "to-"); ok {
		e.marker = true
		return parseInt32(units, &e.ask.Units) && e.ask.Units > 0
	}
	ask, seq, _ := strings.Cut(text, "-")
	for kind, letter := range kindLetters {
		if rest, ok := strings.CutPrefix(ask, letter); ok {
			units, limit, _ := strings.Cut(rest, ".")
			e.ask.Kind = kind
			return parseInt32(units, &e.ask.Units) && parseInt32(limit, &e.ask.Limit) && parseInt32(seq, &e.seq) &&
				e.ask.Units > 0 && e.ask.Units <= e.ask.Limit && e.ask.Limit <= store.MaxReaders
		}
	}
	return false
}

func parseInt32(text string, n *int32) bool {
	parsed, err := strconv.ParseInt(text, 10, 32)
	*n = int32(parsed)
	return err == nil
}

// curatorLayout is that of Curator's recipes: the name of a lock is its path, and the nodes of a line are named
// _c_UUID-lock-SEQUENCE for a mutex, or _c_UUID-__WRIT__SEQUENCE and _c_UUID-__READ__SEQUENCE for a read-write lock.
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

// reserved is the component under which Holdfast has its own nodes.
const reserved = "holdfast"

func (l curatorLayout) path(name string) string {
	components := strings.Split(name, "/")
	for i, component := range components {
		escapedDots := component == "." || component == ".."
		switch component = escapeComponent(component); {
		case component == "":
			component = "%"
		case escapedDots:
			component = strings.ReplaceAll(component, ".", "%2E")
		case i == 0 && (component == reserved || component == "zookeeper"):
			component = fmt.Sprintf("%%%02X%s", component[0], component[1:])
		}
		components[i] = component
	}
	return l.root + "/" + strings.Join(components, "/")
}

// escapeComponent escapes what ZooKeeper takes in no path.
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
	return strings.Join(components, "/"), true
}

func (l curatorLayout) top() string { return l.root }

func (l curatorLayout) mayHaveLines(at string) bool {
	_, isClaim, _ := l.parse(path.Base(at))
	return !isClaim && at != l.root+"/"+reserved && at != l.root+"/zookeeper"
}

func (l curatorLayout) node(id store.ID, ask store.Ask) (string, error) {
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
	e = entry{node: child, ask: store.Ask{Kind: store.Lock, Units: store.MaxReaders, Limit: store.MaxReaders}}
	words := []string{mutexWord}
	if l.shared {
		words = []string{writerWord, readerWord}
	}
	for _, word := range words {
		before, seq, found := strings.Cut(child, word)
		if !found || !parseInt32(seq, &e.seq) {
			continue
		}
		if word == readerWord {
			e.ask.Units = 1
		}
		uuid := strings.ReplaceAll(strings.TrimPrefix(before, "_c_"), "-", "")
		if e.id.UnmarshalText([]byte(uuid)) != nil {
			e.id = store.ID{} // made without protection
		}
		return e, true, nil
	}
	return e, false, nil
}
