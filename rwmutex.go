package holdfast

import "context"

// An RWMutex is a lock that many readers or one writer hold at a time, first come, first served: a writer that
// waits stops later readers. Its write side is the Mutex of the same name. It has no state of its own.
type RWMutex struct{ lock lock }

// RWMutex is the read-write lock of this name. A wrong name or option is an error when it is used.
func (c *Client) RWMutex(name string, options ...Option) *RWMutex {
	return &RWMutex{c.lock(name, options)}
}

// Lock waits until it is the only holder. See Mutex.Lock. Lease.Downgrade turns the lease into a reader's.
func (m *RWMutex) Lock(ctx context.Context) (*Lease, error) {
	return m.lock.acquire(ctx, &request{op: "lock", demand: wholeLock})
}

// TryLock takes the lock for writing if it is free, and is otherwise a *LockedError at once.
func (m *RWMutex) TryLock(ctx context.Context) (*Lease, error) {
	return m.lock.acquire(ctx, &request{op: "trylock", demand: wholeLock, try: true})
}

// RLock waits for its turn to read. Its lease's token is marked as shared.
func (m *RWMutex) RLock(ctx context.Context) (*Lease, error) {
	return m.lock.acquire(ctx, &request{op: "rlock", demand: readLock})
}

// TryRLock takes the lock for reading if it can be had at once, and is otherwise a *LockedError.
func (m *RWMutex) TryRLock(ctx context.Context) (*Lease, error) {
	return m.lock.acquire(ctx, &request{op: "tryrlock", demand: readLock, try: true})
}

// Do runs fn while it holds the lock for writing. See Mutex.Do.
func (m *RWMutex) Do(ctx context.Context, fn func(ctx context.Context) error) error {
	return m.lock.do(ctx, &request{op: "lock", demand: wholeLock}, fn)
}

// RDo runs fn while it holds the lock for reading. See Mutex.Do.
func (m *RWMutex) RDo(ctx context.Context, fn func(ctx context.Context) error) error {
	return m.lock.do(ctx, &request{op: "rlock", demand: readLock}, fn)
}

// Inspect says who holds the lock and who waits for it.
func (m *RWMutex) Inspect(ctx context.Context) (Queue, error) { return m.lock.inspect(ctx) }
