package sqlite

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/sqlstore"
	"github.com/holdfast-go/holdfast/store"
)

const (
	// mostJobs bounds the calls that share a transaction, so that other processes get their turn.
	mostJobs = 128

	// The pauses before the next attempt to get the right to write, while another process has it. A transaction takes
	// some ten microseconds. Of the processes in the queue only the first tries. pauseUnordered is the longest pause of
	// the others: if many tried often, they would leave the machine no time for anything else.
	firstPause     = 100 * time.Microsecond
	longestPause   = 4 * time.Millisecond
	pauseUnordered = 100 * time.Millisecond

	// contendedFor is how long a process queues after it last found the file in use by others. A process that does not
	// queue, and was just served, would be the first to try again, and overtake those in the queue.
	contendedFor = 50 * time.Millisecond

	// queueCheckEvery is how often a process that does not queue checks whether others do.
	queueCheckEvery = time.Millisecond
)

// An engine is one client's connection to a file. Its calls are jobs for a worker, one goroutine: a caller whose
// context is done does not wait for a slow disk, and calls that are made at the same time share a transaction. (A
// goroutine for each job would have to grow its stack for SQLite each time, which takes longer than the job.)
type engine struct {
	path     string
	shared   bool // WithShared: the file is shared with other users
	prefix   string
	identity string
	clock    clock
	wall     func() time.Time
	notifier notifier
	notify   atomic.Pointer[func(store.ID, store.Status)]

	mu     sync.Mutex
	jobs   []*job
	closed bool
	wake   chan struct{} // of size 1: there are jobs, or the engine is closed
	quit   chan struct{} // closed with the engine
	worker sync.WaitGroup

	// turn is a lock of size 1 for the fields that follow. The worker or a caller on the fast path holds it.
	turn           chan struct{}
	queue          queue
	lastContended  time.Duration // when the file was last found in use by others
	lastQueueCheck time.Duration // when the queue was last checked
	file           *file
	opened         int64    // how often a file was opened
	adopted        string   // the identity of the file, once it was found to be of this start of the machine
	version        int64    // PRAGMA data_version at the last call of Changed
	stale          bool     // since then the file was opened again, or this client has written
	blockers       []string // inboxes of the clients that were ahead of this client's claims at the last Poll
	expiry         int64    // when the first claim expires in the queues of that Poll, or 0
}

var _ sqlstore.Engine = (*engine)(nil)

// A job is the work of one call.
type job struct {
	do        func(*transaction) error // an error rolls the transaction back
	plain     bool                     // do only reads, and needs no right to write
	alone     bool                     // it does not share its transaction
	abandoned atomic.Bool              // its caller no longer waits
	done      chan error
}

var errAbandoned = errors.New("no caller waits for the transaction any more")

// write runs do in a transaction and returns its result. It returns when the context is done; then do runs only if it
// has begun.
func write[T any](ctx context.Context, e *engine, do func(*transaction) (T, error)) (T, error) {
	return call(ctx, e, false, do)
}

// read is write for a function that only reads. It does not keep other clients from writing.
func read[T any](ctx context.Context, e *engine, do func(*transaction) (T, error)) (T, error) {
	return call(ctx, e, true, do)
}

func call[T any](ctx context.Context, e *engine, plain bool, do func(*transaction) (T, error)) (answer T, err error) {
	got := new(T) // not the caller's variable: do may run after the caller has returned
	err = e.submit(ctx, &job{plain: plain, do: func(tx *transaction) (err error) { *got, err = do(tx); return err }})
	if err == nil {
		answer = *got
	}
	return answer, err
}

func (e *engine) submit(ctx context.Context, j *job) error {
	j.done = make(chan error, 1)
	if !e.enqueue(j) {
		return store.ErrClosed
	}
	select {
	case err := <-j.done:
		return err
	case <-ctx.Done():
		j.abandoned.Store(true)
		return ctx.Err()
	}
}

// enqueue adds a job for the worker. It returns false if the engine is closed.
func (e *engine) enqueue(j *job) bool {
	e.mu.Lock()
	open := !e.closed
	if open {
		e.jobs = append(e.jobs, j)
	}
	e.mu.Unlock()
	e.wakeWorker()
	return open
}

func (e *engine) wakeWorker() {
	select {
	case e.wake <- struct{}{}:
	default: // it has been woken already
	}
}

// work runs the jobs until the engine is closed.
func (e *engine) work() {
	for {
		some, plain, closed := e.next()
		switch {
		case closed:
			return
		case !some:
			<-e.wake
			continue
		}
		e.turn <- struct{}{}
		if plain {
			for _, j := range e.take() {
				j.done <- e.outside(j)
			}
		} else {
			e.transact()
		}
		<-e.turn
	}
}

// transact runs the next jobs in one transaction.
func (e *engine) transact() {
	switch tx, err := e.begin(); {
	case err == nil:
		e.serve(tx, e.take())
	case !errors.Is(err, errAbandoned):
		reply(e.take(), err)
	}
}

// alone returns a transaction for a single statement, or for reading.
func (e *engine) alone() *transaction {
	return &transaction{file: e.file, engine: e, prefix: e.prefix, now: int64(e.clock.now()), wall: e.wall()}
}

// next reports whether there are jobs, whether the first only reads, and whether the engine is closed. It drops
// abandoned jobs.
func (e *engine) next() (some, plain, closed bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.jobs = slices.DeleteFunc(e.jobs, func(j *job) bool { return j.abandoned.Load() })
	some = len(e.jobs) > 0
	return some, some && e.jobs[0].plain, e.closed
}

// take removes and returns the next job, or the next ones if they can share a transaction.
func (e *engine) take() []*job {
	e.mu.Lock()
	defer e.mu.Unlock()
	n := min(len(e.jobs), mostJobs)
	if i := slices.IndexFunc(e.jobs[:n], func(j *job) bool { return j.plain || j.alone }); i >= 0 {
		n = max(i, 1)
	}
	jobs := slices.Clone(e.jobs[:n])
	e.jobs = slices.Delete(e.jobs, 0, n)
	return jobs
}

func reply(jobs []*job, err error) {
	for _, j := range jobs {
		j.done <- err
	}
}

// serve runs jobs in one transaction. If it fails, each job is run again in a transaction of its own: the fault of one
// must not fail the others.
func (e *engine) serve(tx *transaction, jobs []*job) {
	jobs = slices.DeleteFunc(jobs, func(j *job) bool { return j.abandoned.Load() })
	err := tx.serve(jobs)
	e.queue.leave()
	if err == nil {
		e.stale = true
		e.notifier.remove(tx.deadInboxes)
		reply(jobs, nil)
		e.deliver(tx.messages)
		return
	}
	e.drop()
	if len(jobs) == 1 {
		reply(jobs, e.fault(err))
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		reply(jobs, store.ErrClosed)
		return
	}
	for _, j := range jobs {
		j.alone = true
	}
	e.jobs = append(jobs, e.jobs...)
}

// outside runs a job without a transaction.
func (e *engine) outside(j *job) error {
	err := e.ready()
	if err == nil {
		err = j.do(e.alone())
	}
	if err != nil {
		e.drop()
		return e.fault(err)
	}
	return nil
}

// begin waits for the right to write, for as long as there are callers that wait. A process that finds the file busy
// enters a queue of processes. It tries again when it is first in the queue, and now and then if the queue does not
// move.
func (e *engine) begin() (tx *transaction, err error) {
	pause, queued, first := firstPause, false, false
	for {
		if !queued && e.isContended(e.clock.now()) {
			queued = true
			if others, patience := e.queue.enter(); others {
				e.queue.wait(patience, e.quit)
				e.lastContended = e.clock.now()
			}
		}
		if err = e.ready(); err == nil {
			err = e.file.exec("BEGIN IMMEDIATE")
		}
		if err == nil {
			tx, err = e.newTransaction()
			break
		}
		if !isBusy(err) {
			e.drop()
			err = e.fault(err)
			break
		}
		if !e.wanted() {
			err = errAbandoned
			break
		}
		if e.lastContended = e.clock.now(); !queued {
			continue
		}
		if first {
			time.Sleep(pause/2 + rand.N(pause/2))
			pause = min(2*pause, longestPause)
			continue
		}
		if first = e.queue.wait(pause/2+rand.N(pause/2), e.quit); first {
			pause = firstPause
		} else {
			pause = min(2*pause, pauseUnordered)
		}
	}
	if err != nil {
		e.queue.leave()
	}
	return tx, err
}

// isContended reports whether other processes used the file within the last contendedFor. Then this process waits for
// its turn in the queue.
func (e *engine) isContended(now time.Duration) bool {
	if now >= e.lastQueueCheck+queueCheckEvery {
		if e.lastQueueCheck = now; e.queue.busy() {
			e.lastContended = now
		}
	}
	return e.lastContended > 0 && now < e.lastContended+contendedFor
}

// wanted reports whether a caller still waits for its job.
func (e *engine) wanted() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.ContainsFunc(e.jobs, func(j *job) bool { return !j.abandoned.Load() })
}

// ready makes sure that the open file is the one at the path. If the file was replaced, ready opens the new one, and
// all claims are those of the new file.
func (e *engine) ready() error {
	replaced := false
	if e.file != nil {
		if e.file.current(e.path, e.clock.now()) {
			return nil
		}
		replaced = true // recorded now: the new file may have the inode of the old one as soon as that is closed
		e.drop()
	}
	f, err := e.openChecked()
	if err != nil {
		return err
	}
	e.file, e.stale = f, true
	e.opened++
	if replaced {
		e.push(store.Everyone, store.Status{})
	}
	return nil
}

// openChecked opens the file, unless another user can have put it there. It checks again after opening, when SQLite has
// created its files beside it.
func (e *engine) openChecked() (*file, error) {
	if e.shared {
		return openFile(e.path, sharedMode)
	}
	if err := checkFiles(e.path); err != nil {
		return nil, err
	}
	f, err := openFile(e.path, privateMode)
	if err == nil {
		if err = checkFiles(e.path); err != nil {
			_ = f.close()
		}
	}
	return f, err
}

// drop closes the file. The next job opens it again, which ends any fault of the connection.
func (e *engine) drop() {
	if e.file != nil {
		_ = e.file.close()
		e.file = nil
	}
}

// Changed implements sqlstore.Detector. The death of a client ahead of this client's claims is a change too, and so is
// the end of a claim that expires earlier than this client's last Keep could tell: one that was detached since.
func (e *engine) Changed(ctx context.Context) (bool, error) {
	return read(ctx, e, func(tx *transaction) (bool, error) {
		version, err := tx.version()
		changed := e.stale || version != e.version || e.expiry > 0 && e.expiry <= tx.now ||
			slices.ContainsFunc(e.blockers, e.notifier.dead)
		e.version, e.stale = version, false
		return changed, err
	})
}

// Notify implements sqlstore.Engine.
func (e *engine) Notify(fn func(store.ID, store.Status)) { e.notify.Store(&fn) }

func (e *engine) push(id store.ID, status store.Status) {
	if notify := e.notify.Load(); notify != nil {
		(*notify)(id, status)
	}
}

// Listen implements sqlstore.Engine.
func (e *engine) Listen() bool { return e.notifier.listen(e.push) }

// Inherit implements store.Inheritor.
func (e *engine) Inherit() (end func(), err error) { return e.notifier.inherit() }

// deliver sends the messages of a committed transaction. The claims of a client that turns out to be dead are removed.
func (e *engine) deliver(told []message) {
	var dead []string
	own := e.notifier.name()
	unreachable := map[string]bool{} // a stopped process must not delay this one for each of its claims
	for _, m := range told {
		switch {
		case m.inbox == own:
			e.push(m.id, m.status)
		case !unreachable[m.inbox]:
			if unreachable[m.inbox] = !e.notifier.send(m); unreachable[m.inbox] && e.notifier.dead(m.inbox) {
				dead = append(dead, m.inbox)
			}
		}
	}
	if len(dead) > 0 {
		e.enqueue(&job{do: func(tx *transaction) error { return tx.removeDead(dead) }, done: make(chan error, 1)})
	}
}

// Close implements sqlstore.Engine.
func (e *engine) Close() error {
	e.mu.Lock()
	if !e.closed {
		e.closed = true
		close(e.quit)
	}
	reply(e.jobs, store.ErrClosed)
	e.jobs = nil
	e.mu.Unlock()
	e.wakeWorker()
	e.worker.Wait()
	e.turn <- struct{}{}
	defer func() { <-e.turn }()
	e.notifier.close(e.hasClaims) // after the last write
	if e.file == nil {
		return nil
	}
	err := e.file.close()
	e.file = nil
	return err
}

// hasClaims reports whether the file has claims of this client. It is true if that cannot be read: the sweep of another
// client removes a socket that was left without need.
func (e *engine) hasClaims() bool {
	if e.file == nil {
		return true
	}
	var some bool
	_, err := e.file.one("SELECT EXISTS (SELECT 1 FROM holdfast_claims WHERE inbox = ? AND deadline > ?)",
		[]any{e.notifier.name(), int64(e.clock.now())}, &some)
	return some || err != nil
}
