package history

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// stillEvery is the least time between two lines which record that a hold continues. More frequent checks are not all
// recorded.
const stillEvery = time.Millisecond

// A Recorder writes the history of one process. It is safe for many goroutines.
type Recorder struct {
	process string
	file    *os.File // each line is one write
	ids     atomic.Uint64
	failure atomic.Pointer[error] // the first line that could not be written
}

// Create starts a history in a new file in dir. The process is a name for reports.
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

// Begin records that h begins now, if believed returns true. It is called again whenever the hold is checked. For a
// lease of Holdfast, it reports whether Err is nil. A nil function is always true. Begin fills in the process and the
// times of h.
func (r *Recorder) Begin(h Hold, believed func() bool) (b *Belief, ok bool) {
	return r.BeginUntil(h, believed, nil)
}

// BeginUntil is Begin for a holder that also knows when its belief ends without further news, as Until of a lease
// reports. A nil function means that this is unknown.
func (r *Recorder) BeginUntil(h Hold, believed func() bool, until func() time.Time) (b *Belief, ok bool) {
	if believed == nil {
		believed = func() bool { return true }
	}
	at := Now() // before the call: its result may be old when it returns
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

// Close ends the history. It returns the first error of the recording: then the history is incomplete.
func (r *Recorder) Close() error {
	err := r.file.Close()
	return cmp.Or(r.failed(), err)
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
	until    func() time.Time // nil: unknown
	id       uint64

	mu      sync.Mutex
	last    Instant // when it was last believed
	written Instant // the last that was recorded
	lost    Instant // when the belief was found to have ended
	over    bool
}

// Check checks whether the holder still believes, and records it. A belief that has ended never resumes.
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

// End records the end of the hold. It is called before the lock is released: the belief lasts no longer than that. If
// the holder lost the lock before, the hold ended when it was last believed.
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
	at := Now() // before the call, as in Begin
	if b.believed() {
		b.last = at
	} else {
		b.lost, b.over = at, true
	}
}

// promised returns when the belief ends without further news, or a little earlier.
func (b *Belief) promised() Instant {
	if b.until == nil {
		return 0
	}
	at := Now() // before the call: time that passes meanwhile only makes it earlier
	return at + Instant(time.Until(b.until()))
}
