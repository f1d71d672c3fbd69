package storetest

import (
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/store"
)

// A Harness is a server with a hand on its switches. Each store has one, in its own tests.
//
// Names are those of stores that were opened with no prefix. A harness that cannot do what a method asks returns
// errors.ErrUnsupported, and the cases that need it are skipped.
type Harness interface {
	// Open connects a new client, with a session of its own if the store has sessions, and gives it this prefix.
	// All of its traffic goes over the link. The suite closes the store; what else was opened, the harness
	// closes with t.Cleanup. It calls t.Fatal if it cannot connect.
	Open(t testing.TB, prefix string) (store.Store, Link)

	// Advance lets d pass, for the server and for its clients. In a bubble of testing/synctest it sleeps and
	// then calls synctest.Wait; elsewhere it just sleeps.
	Advance(d time.Duration)

	// Restart stops the server and starts it again, with its data or without. It returns when the server takes
	// connections. Clients may get errors for a while.
	Restart(keepData bool) error

	// Erase takes a claim away under a living client, as an operator with a database shell would. Nobody is
	// told, but for those who are granted by it.
	Erase(name string, id store.ID) error

	// Residue counts what the store still holds for a name: claims, tombstones, keys, counters.
	Residue(name string) (int, error)

	// PlantNewer writes a line under this name in a format of the future.
	PlantNewer(name string) error
}

// A Restless is a harness whose servers may stand still by themselves, one by one, on a machine that runs.
type Restless interface {
	// Unrest counts how often that was noticed so far: by an election that nobody asked for, say.
	Unrest() int
}

// A LooseWaker is a harness of a store on which a release may wake claims that do not fit yet. The case that forbids this
// is skipped for it.
type LooseWaker interface {
	// LooseWake is never called.
	LooseWake()
}

// A Link lies between one client and the server. It does to messages what a network does. Its methods take
// effect before they return.
//
// Release functions may be called twice. What was held back arrives in the order in which it was sent. A link that
// cannot tell answers from pushes, because they share a connection, holds both back together and drops neither.
type Link interface {
	// HoldRequests keeps requests on their way to the server until release. They then land even if their
	// callers have given up.
	HoldRequests() (release func())

	// HoldReplies lets requests land and keeps their answers on the way back until release.
	HoldReplies() (release func())

	// HoldPushes keeps pushes on their way to the client until release.
	HoldPushes() (release func())

	// DropPushes loses every push while it is on.
	DropPushes(on bool)

	// Cut breaks the connection. Calls fail, also those under way. What was held back is lost for ever.
	Cut()

	// Heal undoes Cut. The store may need a moment to connect again.
	Heal()

	// Kill is the end of the client: the link is cut and never heals. The server gets no farewell.
	Kill()
}
