package history

import (
	"sync"

	"github.com/holdfast-go/holdfast"
)

// A Wait is a request for a lock, with its outcome. It lasts from before the call to after its return.
type Wait struct {
	Who
	Resource     string
	Kind         Kind
	Units, Limit int // of a semaphore
	Interval
	Granted bool
	Token   holdfast.Token // of the grant; 0: the lock has none, or it was not granted
	Open    bool           // it lasted at least until End; how it ended is unknown
}

// Wait records that a lock is requested now. It fills in the process, the times and the outcome of w.
func (r *Recorder) Wait(w Wait) *Waiting {
	waiting := &Waiting{recorder: r, id: r.ids.Add(1)}
	r.write(event{
		Event: asked, ID: waiting.id, At: Now(), Client: w.Client, Owner: w.Owner,
		Resource: w.Resource, Kind: w.Kind, Units: w.Units, Limit: w.Limit,
	})
	return waiting
}

// A Waiting is a wait that is being recorded.
type Waiting struct {
	recorder *Recorder
	id       uint64
	once     sync.Once
}

// Granted records that the wait is over and the lock is held, with this token. Only the first end of a wait counts.
func (w *Waiting) Granted(token holdfast.Token) { w.end(granted, token) }

// GaveUp records that the wait is over and nothing is held.
func (w *Waiting) GaveUp() { w.end(gaveUp, 0) }

func (w *Waiting) end(how string, token holdfast.Token) {
	w.once.Do(func() { w.recorder.write(event{Event: how, ID: w.id, At: Now(), Token: token}) })
}

// An Arrival records that the store put a claim into a queue. The claim was sent after Begin and acknowledged before
// End. A hold of the claim has its ticket.
type Arrival struct {
	Who
	Resource string
	Kind     Kind
	Ticket   uint64
	Interval
}

// Arrive records an arrival. It fills in the process.
func (r *Recorder) Arrive(a Arrival) {
	r.write(event{
		Event: arrived, ID: r.ids.Add(1), At: a.Begin, Acked: a.End, Client: a.Client, Owner: a.Owner,
		Resource: a.Resource, Kind: a.Kind, Ticket: a.Ticket,
	})
}
