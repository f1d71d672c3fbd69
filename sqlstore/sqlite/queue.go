package sqlite

import (
	"os"
	"sync"
	"time"
)

// A queue orders the processes that find the file busy: a lock on the folder beside the file, which the kernel grants
// in order of arrival. It keeps many processes from trying SQLite's lock at the same time, and a process from being
// overtaken for ever. It protects nothing: only SQLite decides whether a process may write. No process depends on the
// queue, since the process at its head may be stopped.
//
// Its methods are called by one goroutine at a time.
type queue struct {
	folder string
	shared bool // WithShared

	mu      sync.Mutex
	lock    *os.File      // the folder, while this process is first
	granted chan struct{} // closed when the pending request for the lock has ended; nil: none is pending
	wanted  bool          // the pending request is still wanted
	stuck   bool          // the last wait for it timed out
	met     bool          // other processes were in the queue when this process last entered
}

// queueTimeout is how long a process waits in the queue before it tries SQLite's lock out of turn.
const queueTimeout = 200 * time.Millisecond

// enter enters the queue. It reports whether there are other processes in it, and how long to wait for them. A request
// for the kernel's lock cannot be cancelled. So one that is no longer wanted stays pending, one at most, and keeps its
// position for the next call.
func (q *queue) enter() (others bool, patience time.Duration) {
	q.giveWay()
	q.mu.Lock()
	defer q.mu.Unlock()
	defer func() { q.met = others }()
	if q.granted == nil {
		if err := makeFolder(q.folder, q.shared); err != nil {
			return false, 0
		}
		folder, err := os.Open(q.folder)
		if err != nil {
			return false, 0
		}
		busy, err := tryLockFolder(folder, true)
		switch {
		case err != nil:
			_ = folder.Close()
			return false, 0
		case !busy:
			q.lock = folder
			return false, 0
		}
		q.granted, q.stuck = make(chan struct{}), false
		go q.await(folder, q.granted)
	}
	if q.wanted = true; !q.stuck {
		patience = queueTimeout
	}
	return true, patience
}

// giveWay waits up to a millisecond until another process has the lock, if others were in the queue last time. When a
// lock is released the kernel wakes the next process, but grants the lock to the first that requests it, and this
// process would be faster.
func (q *queue) giveWay() {
	if !q.met {
		return
	}
	for start := time.Now(); !q.busy() && time.Since(start) < time.Millisecond; {
		time.Sleep(firstPause / 2)
	}
}

// busy reports whether another process is in the queue.
func (q *queue) busy() bool {
	folder, err := os.Open(q.folder)
	if err != nil {
		return false
	}
	defer func() { _ = folder.Close() }()
	busy, _ := tryLockFolder(folder, false)
	return busy
}

// await waits for the lock.
func (q *queue) await(folder *os.File, granted chan<- struct{}) {
	err := lockFolder(folder)
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.granted = nil; err == nil && q.wanted {
		q.lock = folder
	} else {
		_ = folder.Close() // which releases the lock
	}
	close(granted)
}

// wait waits for d at most, or until this process is first in the queue, or quit is closed. It reports whether it is
// first.
func (q *queue) wait(d time.Duration, quit <-chan struct{}) (first bool) {
	q.mu.Lock()
	first, granted := q.lock != nil, q.granted
	q.mu.Unlock()
	if first {
		return true
	}
	select {
	case <-granted:
	case <-time.After(d):
	case <-quit:
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.stuck = q.lock == nil
	return q.lock != nil
}

// leave releases the lock, or gives up the request for it.
func (q *queue) leave() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.wanted = false; q.lock != nil {
		_ = q.lock.Close()
		q.lock = nil
	}
}
