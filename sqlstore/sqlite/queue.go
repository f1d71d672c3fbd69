package sqlite

// A place is one in the queue of processes that found the file busy. The queue is a lock on the file's folder, which
// the kernel gives in order. It is politeness and nothing else: it keeps many processes from asking SQLite again and
// again at the same time. Whether one may write is for SQLite to say.
type place struct {
	ordered bool   // there is a queue, and this place is its first
	leave   func() // lets the next one in
}

// enterQueue waits until this process is first in the queue, or until quit is closed.
func enterQueue(folder string, quit <-chan struct{}) *place {
	unlock, locked := lockFolder(folder)
	if locked == nil {
		return &place{leave: func() {}}
	}
	select {
	case err := <-locked:
		return &place{ordered: err == nil, leave: unlock}
	case <-quit:
		go func() { <-locked; unlock() }() // the kernel cannot be told that nobody waits any more
		return &place{leave: func() {}}
	}
}
