package store

import (
	"context"
	"time"
)

// A Detacher is implemented by a Store in which a held claim can outlive its client, and can be passed on to another
// one. Abilities.Detach reports whether a store can do that as it was opened.
//
// A detached claim belongs to no client. It is held like any other: it has its ticket and its units, it counts in its
// queue, Queue shows it, Break and Leave remove it. But no client keeps it, and it expires at a time that Detach sets.
// The death of the client that detached it does not remove it, nor does the end of that client's session.
//
// Both methods replace the ID of a claim under the serialisation of its resource. That is what makes them safe: of
// several clients that attach one claim the first renames it, and for the others it is Gone; and a Keep or Leave of the
// earlier ID that arrives late finds nothing that it could extend, shorten or remove.
type Detacher interface {
	// Detach gives the held claim c the ID as, and makes it a detached claim that expires when d has passed: not
	// earlier, and not later than a claim of the ttl d whose holder died (see Abilities.TakeoverTTLs). It has no grace.
	//
	//  1. If the claim as is in the queue, because the call is a repetition or because as is c.ID, Detach extends it:
	//     it expires d from now, unless it expires later anyway. So a call that another has overtaken shortens nothing.
	//  2. If there is a tombstone for as, or if c.ID is not in the queue, it returns Gone, and changes nothing.
	//
	// The status is Held with the claim's ticket and with Until, which counts from the sending of the request (rule 5),
	// or Gone. The caller passes a claim that it believes held. If the claim waits, the grant was lost: it is not
	// detached, and Detach returns Gone, or an error. The caller must not use c.ID any more, whatever Detach returns,
	// but for a Leave. After an error that is not final, and after Gone, it leaves both c.ID and as, the latter with
	// Ticket 0: the outcome is unknown, or the claim may be waiting (rule 8).
	Detach(ctx context.Context, c Claim, as ID, d time.Duration) (Status, error)

	// Attach makes the detached claim with the ID from, in the queue of c.Name, a claim of this client: it gets the ID,
	// the ttl, the grace, the owner and the turn of c, and has to be kept. Its ticket, its units and its position stay.
	//
	//  1. If c.ID is in the queue, because the call is a repetition, Attach keeps that claim and returns its status.
	//  2. If there is a tombstone for c.ID, or if from is not held in the queue, it returns Gone, and changes nothing.
	//
	// The status is Held with the claim's ticket and with Until, or Gone. After an error the caller leaves c with
	// Ticket 0 (rule 8). If Attach had arrived, that releases the claim.
	Attach(ctx context.Context, c Claim, from ID) (Status, error)
}
