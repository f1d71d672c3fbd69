package holdfast

import "context"

// An RWMutex is a lock with many readers or one writer at a time, first come, first served: a waiting writer stops
// later readers. Its write side is the Mutex of the same name. It has no state of its own: two of the same name are the
// same lock.
type RWMutex struct{ lock lock }

// RWMutex returns the read-write lock of this name. A wrong name or option is an error of its methods.
func (c *Client) RWMutex(name string, options ...Option) *RWMutex {
	return &RWMutex{c.lock(name, options)}
}

// Lock waits for the lock and acquires it for writing. See [Mutex.Lock] about ctx and the errors. [Lease.Downgrade]
// turns the lease into a reader's.
func (m *RWMutex) Lock(ctx context.Context) (*Lease, error) {
	return m.lock.acquire(ctx, &request{op: "lock", demand: wholeLock})
}

// TryLock acquires the lock for writing if it is free, and does not wait. See [Mutex.TryLock] about the errors.
func (m *RWMutex) TryLock(ctx context.Context) (*Lease, error) {
	return m.lock.acquire(ctx, &request{op: "trylock", demand: wholeLock, try: true})
}

// RLock waits for the lock and acquires it for reading. The lease's token is marked as shared. See [Mutex.Lock] about
// ctx and the errors.
func (m *RWMutex) RLock(ctx context.Context) (*Lease, error) {
	return m.lock.acquire(ctx, &request{op: "rlock", demand: readLock})
}

// TryRLock acquires the lock for reading if that is possible at once, and does not wait. See [Mutex.TryLock] about the
// errors.
func (m *RWMutex) TryRLock(ctx context.Context) (*Lease, error) {
	return m.lock.acquire(ctx, &request{op: "tryrlock", demand: readLock, try: true})
}

// Do calls fn while it holds the lock for writing. See [Mutex.Do].
func (m *RWMutex) Do(ctx context.Context, fn func(ctx context.Context) error) error {
	return m.lock.do(ctx, &request{op: "lock", demand: wholeLock}, fn)
}

// RDo calls fn while it holds the lock for reading. See [Mutex.Do].
func (m *RWMutex) RDo(ctx context.Context, fn func(ctx context.Context) error) error {
	return m.lock.do(ctx, &request{op: "rlock", demand: readLock}, fn)
}

// Inspect returns the holders and the waiters of the lock. See [Client.Inspect].
func (m *RWMutex) Inspect(ctx context.Context) (Queue, error) { return m.lock.inspect(ctx) }
