package memstore

import (
	"context"
	"errors"
	"time"

	"github.com/holdfast-go/holdfast/store"
)

// Disconnect cuts the connection between this store and its server until [Store.Reconnect]. Calls fail with a Fault,
// including those under way, whose requests may still arrive. Notifications are lost. A client that stays disconnected
// loses its leases when their ttl has passed, as it would on a real network.
func (st *Store) Disconnect() {
	st.setFaults(func(f *faults) { f.disconnected = true })
}

// Reconnect ends a Disconnect. The client renews all of its claims, since notifications may have been lost.
func (st *Store) Reconnect() {
	st.setFaults(func(f *faults) { f.disconnected = false })
	st.frame.Push(store.Everyone, store.Status{})
}

// SetDelay makes every request arrive at the server, and every notification at the client, d later. A request whose
// caller has given up arrives all the same. A delay of 0 turns it off. Requests under way keep the delay they have.
func (st *Store) SetDelay(d time.Duration) {
	st.setFaults(func(f *faults) { f.delay = d })
}

// faults is the Network of a store whose connection is cut or slow. It does not change once it is in use: another one
// replaces it.
type faults struct {
	beneath      Network // the store's own, or nil
	disconnected bool
	delay        time.Duration
	cut          chan struct{} // closed when the store is disconnected
}

// setFaults replaces the store's faults by a copy that change was applied to.
func (st *Store) setFaults(change func(*faults)) {
	st.faultsMu.Lock()
	defer st.faultsMu.Unlock()
	next := &faults{beneath: st.network, cut: make(chan struct{})}
	if old := st.faults.Load(); old != nil {
		next.disconnected, next.delay, next.cut = old.disconnected, old.delay, old.cut
	}
	before := next.disconnected
	change(next)
	switch {
	case next.disconnected && !before:
		close(next.cut)
	case before && !next.disconnected:
		next.cut = make(chan struct{})
	}
	st.faults.Store(next)
}

// route returns the network that messages take now, or nil if they are delivered directly.
func (st *Store) route() Network {
	if f := st.faults.Load(); f != nil && (f.disconnected || f.delay > 0) {
		return f
	}
	return st.network
}

var errDisconnected = errors.New("the connection is cut")

// Call implements Network.
func (f *faults) Call(ctx context.Context, do func()) error {
	if f.disconnected {
		return errDisconnected
	}
	done := make(chan error, 1)
	time.AfterFunc(f.delay, func() {
		if f.beneath != nil {
			done <- f.beneath.Call(ctx, do)
			return
		}
		do()
		done <- nil
	})
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	case <-f.cut:
		return errDisconnected
	}
}

// Push implements Network.
func (f *faults) Push(do func()) {
	if f.disconnected {
		return
	}
	time.AfterFunc(f.delay, func() {
		select {
		case <-f.cut: // lost on the way
		default:
			if f.beneath != nil {
				f.beneath.Push(do)
				return
			}
			do()
		}
	})
}
