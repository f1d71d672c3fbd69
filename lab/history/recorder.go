package history

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// stillEvery is how often a line says that a hold goes on. Asking more often is not written down each time.
const stillEvery = time.Millisecond

// A Recorder writes the history of one process. It is safe for many goroutines.
type Recorder struct {
	process string
	file    *os.File // takes each line in one piece
	ids     atomic.Uint64
	failure atomic.Pointer[error] // the first line that could not be written
}

// Create starts a history in a new file of this folder. Process says who writes, for people.
func Create(dir, process string) (*Recorder, error) {
	boot, err := bootID()
	if err != nil {
		return nil, fmt.Errorf("holdfast: history: %w", err)
	}
	file, err := os.CreateTemp(dir, "*"+suffix)
	if err != nil {
		return nil, fmt.Errorf("holdfast: history: %w", err)
	}
	r := &Recorder{process: process, file: file}
	r.write(header{version, process, clockName, boot})
	if err := r.failed(); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return r, nil
}

// Begin records that h begins now, if its holder believes so: believed is asked now and whenever the hold is checked.
// A lease of Holdfast believes while its Err is nil. Nil stands for a holder who never doubts. Of h, the process and
// the times are filled in.
func (r *Recorder) Begin(h Hold, believed func() bool) (b *Belief, ok bool) {
	return r.BeginUntil(h, believed, nil)
}

// BeginUntil is Begin of a hold whose holder also says up to when it would believe if it heard nothing more, as the Until
// of a lease does. Nil stands for a holder that does not say.
func (r *Recorder) BeginUntil(h Hold, believed func() bool, until func() time.Time) (b *Belief, ok bool) {
	if believed == nil {
		believed = func() bool { return true }
	}
	at := Now() // before the question: the answer may be old when it comes
	if !believed() {
		return nil, false
	}
	b = &Belief{recorder: r, believed: believed, until: until, id: r.ids.Add(1), last: at, written: at}
	r.write(event{
		Event: began, ID: b.id, At: at, Until: b.promised(),
		Client: h.Client, Owner: h.Owner, Resource: h.Resource,
		Kind: h.Kind, Units: h.Units, Limit: h.Limit, Token: h.Token,
	})
	return b, true
}

// Close ends the history. Its error is the first one that recording met: then the history is not complete.
func (r *Recorder) Close() error {
	err := r.file.Close()
	if failure := r.failed(); failure != nil {
		return failure
	}
	return err
}

func (r *Recorder) write(line any) {
	text, err := json.Marshal(line)
	if err == nil {
		_, err = r.file.Write(append(text, '\n'))
	}
	if err != nil {
		err = fmt.Errorf("holdfast: history: %w", err)
		r.failure.CompareAndSwap(nil, &err)
	}
}

func (r *Recorder) failed() error {
	if failure := r.failure.Load(); failure != nil {
		return *failure
	}
	return nil
}

// A Belief is a hold that is being recorded. It is safe for many goroutines.
type Belief struct {
	recorder *Recorder
	believed func() bool
	until    func() time.Time // nil: the holder does not say
	id       uint64

	mu      sync.Mutex
	last    Instant // when it was last believed
	written Instant // what of that is written down
	lost    Instant // when it was found to be believed no more
	over    bool
}

// Check asks the holder whether it still believes, and records it. Once it does not, it never will again.
func (b *Belief) Check() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ask()
	if !b.over && b.last.Sub(b.written) >= stillEvery {
		b.written = b.last
		b.recorder.write(event{Event: still, ID: b.id, At: b.last, Until: b.promised()})
	}
	return !b.over
}

// End records the end of the hold. It is called before the lock is given back: the holder believes no longer than that.
// If the holder has lost the lock before, the hold has ended when it was last believed.
func (b *Belief) End() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ask(); b.believed != nil {
		b.believed, b.over = nil, true
		b.recorder.write(event{Event: ended, ID: b.id, At: b.last, Lost: b.lost != 0, Seen: b.lost})
	}
}

func (b *Belief) ask() {
	if b.over {
		return
	}
	at := Now() // before the question, as in Begin
	if b.believed() {
		b.last = at
	} else {
		b.lost, b.over = at, true
	}
}

// promised is up to when the holder would believe, or a little less.
func (b *Belief) promised() Instant {
	if b.until == nil {
		return 0
	}
	at := Now() // before the question: what passes meanwhile makes it less
	return at + Instant(time.Until(b.until()))
}
