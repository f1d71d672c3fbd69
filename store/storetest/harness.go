package storetest

import (
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/store"
)

// A Harness controls the server of a store. Each store has one, in its own tests.
//
// Names are those of stores that were opened without a prefix. If a harness cannot do what a method is for, the method
// returns errors.ErrUnsupported, and the cases that need it are skipped.
type Harness interface {
	// Open connects a new client, with a session of its own if the store has sessions, and with this prefix. All of its
	// traffic passes through the link. The suite closes the store. The harness closes everything else that it opened,
	// with t.Cleanup. It calls t.Fatal if it cannot connect.
	Open(t testing.TB, prefix string) (store.Store, Link)

	// Advance lets d pass, for the server and for its clients. In a bubble of testing/synctest it sleeps and
	// then calls synctest.Wait; elsewhere it just sleeps.
	Advance(d time.Duration)

	// Restart stops the server and starts it again, with its data or without. It returns when the server accepts
	// connections. Clients may get errors for a while.
	Restart(keepData bool) error

	// Erase deletes a claim of a live client, as an operator with a database shell would. No client is notified, except
	// for those whose claims are granted by it.
	Erase(name string, id store.ID) error

	// Residue counts what the store still holds for a name: claims, tombstones, keys, counters.
	Residue(name string) (int, error)

	// PlantNewer writes a queue with this name in a newer format.
	PlantNewer(name string) error
}

// A LooseWaker is a harness of a store on which a release may wake claims that do not fit yet. The case that forbids
// this is skipped for it.
type LooseWaker interface {
	// LooseWake is never called.
	LooseWake()
}

// A Link connects one client with the server, and can do to messages what a network does. Its methods take effect
// before they return.
//
// Release functions may be called twice. Messages that were held back arrive in the order in which they were sent. If
// responses and pushes share a connection, so that a link cannot tell them apart, it holds both back together and drops
// neither.
type Link interface {
	// HoldRequests holds requests back until release. They then arrive even if their callers have given up.
	HoldRequests() (release func())

	// HoldReplies lets requests arrive and holds their responses back until release.
	HoldReplies() (release func())

	// HoldPushes holds pushes back until release.
	HoldPushes() (release func())

	// DropPushes discards every push while it is on.
	DropPushes(on bool)

	// Cut breaks the connection. Calls fail, also those under way. Messages that were held back are lost for good.
	Cut()

	// Heal undoes Cut. The store may need a moment to connect again.
	Heal()

	// Kill ends the client as a crash would: the link is cut for good, and the server receives nothing more.
	Kill()
}
