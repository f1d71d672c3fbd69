package storetest

import "github.com/holdfast-go/holdfast/store"

var identity = rule{6, "identity", "Leave and Keep touch only the claim with that ID, " +
	"and Keep never increases its units.", []scenario{
	{"a stranger leaves", 0, strangerLeaves},
	{"a stranger keeps", 0, strangerKeeps},
	{"leaving twice", 0, leavingTwice},
	{"leaving another queue", 0, leavingAnotherQueue},
	{"a downgrade lets readers in", aQueue | weights, downgradeLetsReadersIn},
	{"a late keep does not undo a downgrade", aQueue | weights, lateKeepAfterDowngrade},
	{"a waiting claim shrinks", aQueue | weights, waitingClaimShrinks},
	{"keep does not grow", weights, keepDoesNotGrow},
}}

// The stranger knows everything about the holder but its ID.
func strangerLeaves(t *trial) {
	holder, stranger := t.rivals()
	other := holder.rival()
	holder.join(store.Held)
	stranger.leave()
	stranger.claim.Ticket = holder.claim.Ticket
	stranger.claim.Owner = holder.claim.Owner
	stranger.leave()
	holder.keep(store.Held)
	other.try(store.Gone)
}

// The same with a dead holder: the stranger's Keep must not extend its claim.
func strangerKeeps(t *trial) {
	holder, stranger := t.rivals()
	holder.join(store.Held)
	stranger.claim.Ticket = holder.claim.Ticket
	stranger.claim.Owner = holder.claim.Owner
	holder.link.Kill()
	keepFor(t.takeover(), stranger) // Gone, and it stays so
	holder.rival().try(store.Held)
}

// The first Leave may be repeated long after the next claim was granted.
func leavingTwice(t *trial) {
	first, next, other := t.pairAndOther()
	first.leave()
	next.succeed()
	first.leave()
	next.keep(store.Held)
	other.try(store.Gone)
}

// A claim belongs to one queue: its ID means nothing in another.
func leavingAnotherQueue(t *trial) {
	c := t.open()
	holder := c.mutex(t.name("here"))
	holder.join(store.Held)
	elsewhere := c.mutex(t.name("there"))
	elsewhere.join(store.Held)
	astray := c.mutex(elsewhere.claim.Name)
	astray.claim.ID = holder.claim.ID
	astray.leave()
	astray.keep(store.Gone)
	holder.keep(store.Held)
	elsewhere.keep(store.Held)
}

func downgradeLetsReadersIn(t *trial) {
	name := t.name("downgrade")
	writer, reader, next := t.open().mutex(name), t.open().reader(name), t.open().mutex(name)
	queued(writer, reader, next)
	writer.claim.Units = 1
	writer.keep(store.Held)
	reader.keep(store.Held)
	next.keep(store.Waiting)
	writer.leave()
	reader.leave()
	next.keep(store.Held)
}

// The Keep with the full units was sent before the downgrade and arrives after it.
func lateKeepAfterDowngrade(t *trial) {
	name := t.name("undone")
	writer, reader := t.open().mutex(name), t.open().reader(name)
	writer.join(store.Held)
	writer.claim.Units = 1
	writer.keep(store.Held)
	writer.claim.Units = store.MaxReaders
	writer.keep(store.Held)
	reader.join(store.Held)
}

func waitingClaimShrinks(t *trial) {
	name := t.name("waiting")
	holder, large := t.open().semaphore(name, 2, 4), t.open().semaphore(name, 4, 4)
	small := t.open().semaphore(name, 1, 4)
	queued(holder, large, small)
	large.claim.Units = 1
	large.keep(store.Held)
	small.keep(store.Held)
}

func keepDoesNotGrow(t *trial) {
	name := t.name("grow")
	greedy, other := t.open().semaphore(name, 1, 4), t.open().semaphore(name, 3, 4)
	greedy.join(store.Held)
	greedy.claim.Units = 4
	greedy.keep(store.Held)
	other.join(store.Held)
}
