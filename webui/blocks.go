package webui

import (
	"slices"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/store"
)

// A blockJSON is a name in the tree of which claims block which. The holders block the waiters. A waiter that holds
// other names blocks the waiters of those.
type blockJSON struct {
	Name    string        `json:"name"`
	Holders []store.Owner `json:"holders"` // the first few
	More    int           `json:"more"`    // holders beyond them
	Waiters []waiterJSON  `json:"waiters"`
	Hidden  int           `json:"hidden"` // waiters beyond them
	Root    bool          `json:"root,omitempty"`
}

type waiterJSON struct {
	Owner  store.Owner    `json:"owner"`
	Token  holdfast.Token `json:"token"`
	Since  int64          `json:"since"`
	Blocks []*blockJSON   `json:"blocks,omitempty"`
	Again  []string       `json:"again,omitempty"` // names that it holds and that are in the tree already: a deadlock
}

// Bounds of a tree.
const (
	maxTreeHolders = 3
	maxTreeWaiters = 12
	maxTreeNames   = 64
)

// tree returns the tree in which the claims of name wait, from its roots: the names whose holders wait for nothing. If
// all holders wait, in a deadlock, there is no root, and the tree begins with the name itself.
func (b *board) tree(name string) []*blockJSON {
	roots := b.roots(name)
	begin := roots
	if len(roots) == 0 {
		begin = []string{name}
	}
	seen := map[string]bool{}
	trees := []*blockJSON{}
	for _, root := range begin {
		if t := b.block(root, name, seen); t != nil {
			t.Root = len(roots) > 0
			trees = append(trees, t)
		}
	}
	return trees
}

// roots goes from a name to the names that its holders wait for, and so on, and returns those at which it ends.
func (b *board) roots(name string) (roots []string) {
	seen := map[string]bool{name: true}
	for todo := []string{name}; len(todo) > 0 && len(seen) < maxTreeNames; todo = todo[1:] {
		waits := false
		for _, h := range b.queues[todo[0]].Holders() {
			for _, other := range b.waitsFor(h.Owner.ID) {
				waits = true
				if !seen[other] {
					seen[other] = true
					todo = append(todo, other)
				}
			}
		}
		if !waits {
			roots = append(roots, todo[0])
		}
	}
	return roots
}

// waitsFor returns the names that an owner waits for.
func (b *board) waitsFor(owner string) (names []string) {
	for _, name := range b.names(owner) {
		if slices.ContainsFunc(b.queues[name].Waiters(), func(e holdfast.Entry) bool { return e.Owner.ID == owner }) {
			names = append(names, name)
		}
	}
	return names
}

// block returns the tree below a name, or nil if there is too much. All waiters of focus are in it, up to the bound,
// and of other names first those that hold something.
func (b *board) block(name, focus string, seen map[string]bool) *blockJSON {
	if len(seen) >= maxTreeNames {
		return nil
	}
	seen[name] = true
	q := b.queues[name]
	t := &blockJSON{Name: name, Waiters: []waiterJSON{}}
	for _, h := range q.Holders()[:min(len(q.Holders()), maxTreeHolders)] {
		t.Holders = append(t.Holders, h.Owner)
	}
	t.More = len(q.Holders()) - len(t.Holders)
	for _, w := range q.Waiters() {
		holding := b.contended(w.Owner.ID, name)
		if len(t.Waiters) >= maxTreeWaiters && (len(holding) == 0 || name == focus) {
			t.Hidden++
			continue
		}
		node := waiterJSON{Owner: w.Owner, Token: w.Token, Since: millis(w.Since)}
		for _, held := range holding {
			if seen[held] {
				node.Again = append(node.Again, held)
			} else if below := b.block(held, focus, seen); below != nil {
				node.Blocks = append(node.Blocks, below)
			}
		}
		t.Waiters = append(t.Waiters, node)
	}
	return t
}

// contended returns the names other than one that an owner holds and that other claims wait for.
func (b *board) contended(owner, except string) (names []string) {
	for _, name := range b.names(owner) {
		if q := b.queues[name]; name != except && len(q.Waiters()) > 0 && q.holds(owner) {
			names = append(names, name)
		}
	}
	return names
}
