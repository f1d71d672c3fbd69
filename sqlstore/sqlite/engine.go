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
	// A transaction serves at most so many calls, so that other processes get their turn.
	mostJobs = 128

	// How long to wait before asking again for the right to write, while another process has it. A transaction
	// takes some ten microseconds. Of those who stand in the queue one asks; without a queue all do, and so many
	// would leave the machine no time for anything else.
	firstPause     = 100 * time.Microsecond
	longestPause   = 4 * time.Millisecond
	pauseUnordered = 100 * time.Millisecond

	// crowdedFor is how long a process queues after it has last met others at the file. A process that asks without
	// queueing, and has just been served, is the first to ask again: it would overtake those in the queue.
	crowdedFor = 50 * time.Millisecond

	// glanceEvery is how often a process that does not queue looks whether others do.
	glanceEvery = time.Millisecond
)

// An engine is one client's connection to a file. Its calls are jobs for a worker, one goroutine: so a caller whose
// context is done need not wait for a slow disk, and calls that come together share a transaction. (A goroutine for
// each job would have to grow its stack for SQLite each time, which takes longer than the job.)
type engine struct {
	path     string
	shared   bool // with other users
	prefix   string
	identity string
	clock    clock
	wall     func() time.Time
	bell     bell
	notify   atomic.Pointer[func(store.ID, store.Status)]

	mu     sync.Mutex
	jobs   []*job
	closed bool
	wake   chan struct{} // has room for one: there are jobs, or it is closed
	quit   chan struct{} // closed with the engine
	worker sync.WaitGroup

	// turn is filled by whoever uses what follows: the worker, or a caller on the quick way.
	turn     chan struct{}
	queue    queue
	crowded  time.Duration // when others were last met at the file
	glanced  time.Duration // when the queue was last looked at
	file     *file
	opened   int64    // how often a file was opened
	adopted  string   // the identity of the file in which this start of the machine was seen
	version  int64    // PRAGMA data_version, when Changed last looked
	stale    bool     // since then the file was opened anew, or this client has written
	blockers []string // inboxes of those who were ahead of this client's claims when Look last looked
}

var _ sqlstore.Engine = (*engine)(nil)

// A job is what one call wants done.
type job struct {
	do    func(*transaction) error // an error undoes the transaction
	plain bool                     // do only reads, and needs no right to write
	alone bool                     // it shares its transaction with no other
	gone  atomic.Bool              // its caller does not wait any more
	done  chan error
}

var errNobody = errors.New("nobody waits for it any more")

// ask has do run in a transaction. When the context is done it returns, and do runs only if it has begun.
func ask[T any](ctx context.Context, e *engine, do func(*transaction) (T, error)) (T, error) {
	return call(ctx, e, false, do)
}

// read is ask for a do that only reads, and keeps nobody from writing.
func read[T any](ctx context.Context, e *engine, do func(*transaction) (T, error)) (T, error) {
	return call(ctx, e, true, do)
}

func call[T any](ctx context.Context, e *engine, plain bool, do func(*transaction) (T, error)) (answer T, err error) {
	got := new(T) // not the caller's: do may run when the caller has gone
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
		j.gone.Store(true)
		return ctx.Err()
	}
}

// enqueue gives the worker a job, unless the engine is closed.
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

// work does what is to be done until the engine is closed.
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

// transact serves what is to be done in one transaction.
func (e *engine) transact() {
	switch tx, err := e.begin(); {
	case err == nil:
		e.serve(tx, e.take())
	case !errors.Is(err, errNobody):
		answer(e.take(), err)
	}
}

// alone is a transaction for a single statement, or for reading.
func (e *engine) alone() *transaction {
	return &transaction{file: e.file, engine: e, prefix: e.prefix, now: int64(e.clock.now()), wall: e.wall()}
}

// next says what is to be done next, and drops the jobs whose callers have gone.
func (e *engine) next() (some, plain, closed bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.jobs = slices.DeleteFunc(e.jobs, func(j *job) bool { return j.gone.Load() })
	some = len(e.jobs) > 0
	return some, some && e.jobs[0].plain, e.closed
}

// take gives out the next job, or the next ones if they can share a transaction.
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

func answer(jobs []*job, err error) {
	for _, j := range jobs {
		j.done <- err
	}
}

// serve does jobs in one transaction. If that fails, each is to be done in its own: the fault of one is not the others'.
func (e *engine) serve(tx *transaction, jobs []*job) {
	jobs = slices.DeleteFunc(jobs, func(j *job) bool { return j.gone.Load() })
	err := tx.serve(jobs)
	e.queue.leave()
	if err == nil {
		e.stale = true
		e.bell.remove(tx.buried)
		answer(jobs, nil)
		e.tell(tx.told)
		return
	}
	e.drop()
	if len(jobs) == 1 {
		answer(jobs, e.fault(err))
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		answer(jobs, store.ErrClosed)
		return
	}
	for _, j := range jobs {
		j.alone = true
	}
	e.jobs = append(jobs, e.jobs...)
}

// outside does a job without a transaction.
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

// begin waits for the right to write, for as long as anybody wants it. A process that finds the file busy stands in a
// queue of processes and asks again when it is first there, and now and then if the queue does not move.
func (e *engine) begin() (tx *transaction, err error) {
	pause, queued, first := firstPause, false, false
	for {
		if !queued && e.meetsOthers(e.clock.now()) {
			queued = true
			if others, patience := e.queue.enter(); others {
				e.queue.wait(patience, e.quit)
				e.crowded = e.clock.now()
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
			err = errNobody
			break
		}
		if e.crowded = e.clock.now(); !queued {
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

// meetsOthers reports whether other processes were at the file a moment ago. Then it is this process's turn when the
// queue says so.
func (e *engine) meetsOthers(now time.Duration) bool {
	if now >= e.glanced+glanceEvery {
		if e.glanced = now; e.queue.busy() {
			e.crowded = now
		}
	}
	return e.crowded > 0 && now < e.crowded+crowdedFor
}

// wanted says whether a caller still waits for an answer.
func (e *engine) wanted() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.ContainsFunc(e.jobs, func(j *job) bool { return !j.gone.Load() })
}

// ready makes sure that the file of this path is the one that is open. Somebody may have replaced it: then all
// claims are those of the new one.
func (e *engine) ready() error {
	replaced := false
	if e.file != nil {
		if e.file.current(e.path, e.clock.now()) {
			return nil
		}
		replaced = true // noted now: the new file may have the inode of the old one as soon as that is closed
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

// openChecked opens the file if no other user can have put it there. What SQLite makes beside it is looked at when it
// is made.
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

// drop closes the file. The next job opens it again: whatever was wrong with the connection is then gone.
func (e *engine) drop() {
	if e.file != nil {
		_ = e.file.close()
		e.file = nil
	}
}

// Changed implements sqlstore.Detector. A client ahead of this client's claims that has died is a change too.
func (e *engine) Changed(ctx context.Context) (bool, error) {
	return read(ctx, e, func(tx *transaction) (bool, error) {
		version, err := tx.version()
		changed := e.stale || version != e.version || slices.ContainsFunc(e.blockers, e.bell.dead)
		e.version, e.stale = version, false
		return changed, err
	})
}

// Notify implements sqlstore.Engine.
func (e *engine) Notify(fn func(store.ID, store.Status)) { e.notify.Store(&fn) }

func (e *engine) push(id store.ID, standing store.Status) {
	if notify := e.notify.Load(); notify != nil {
		(*notify)(id, standing)
	}
}

// Listen implements sqlstore.Engine.
func (e *engine) Listen() bool { return e.bell.listen(e.push) }

// Inherit implements store.Inheritor.
func (e *engine) Inherit() (end func(), err error) { return e.bell.inherit() }

// tell passes on what a transaction has changed for others. A grant to a client that is dead is not the end of it.
func (e *engine) tell(told []message) {
	var dead []string
	own := e.bell.name()
	deaf := map[string]bool{} // a process that was stopped must not hold up this one for each of its claims
	for _, m := range told {
		switch {
		case m.inbox == own:
			e.push(m.id, m.standing)
		case !deaf[m.inbox]:
			if deaf[m.inbox] = !e.bell.ring(m); deaf[m.inbox] && e.bell.dead(m.inbox) {
				dead = append(dead, m.inbox)
			}
		}
	}
	if len(dead) > 0 {
		e.enqueue(&job{do: func(tx *transaction) error { return tx.bury(dead) }, done: make(chan error, 1)})
	}
}

// Close implements sqlstore.Engine.
func (e *engine) Close() error {
	e.mu.Lock()
	if !e.closed {
		e.closed = true
		close(e.quit)
	}
	answer(e.jobs, store.ErrClosed)
	e.jobs = nil
	e.mu.Unlock()
	e.wakeWorker()
	e.worker.Wait()
	e.turn <- struct{}{}
	defer func() { <-e.turn }()
	e.bell.close(e.hasClaims) // now that nothing is written any more
	if e.file == nil {
		return nil
	}
	err := e.file.close()
	e.file = nil
	return err
}

// hasClaims reports whether the file has claims of this client, or cannot say. The next client sweeps a socket that was
// left for nothing.
func (e *engine) hasClaims() bool {
	if e.file == nil {
		return true
	}
	var some bool
	_, err := e.file.one("SELECT EXISTS (SELECT 1 FROM holdfast_claims WHERE inbox = ? AND deadline > ?)",
		[]any{e.bell.name(), int64(e.clock.now())}, &some)
	return some || err != nil
}
