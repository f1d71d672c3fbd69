package memstore_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/memstore"
)

// TestDisconnect: a client that is cut off can't lock, loses its lease after the ttl and not before, and can lock again
// after it was reconnected.
func TestDisconnect(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		connection := memstore.NewServer().Connect()
		locks := holdfast.New(connection, holdfast.WithTTL(10*time.Second))
		defer locks.Close()
		lease, err := locks.Mutex("job").Lock(t.Context())
		if err != nil {
			t.Fatal(err)
		}

		connection.Disconnect()
		_, err = locks.Mutex("other").TryLock(t.Context())
		if _, ok := errors.AsType[*holdfast.Fault](err); !ok {
			t.Errorf("TryLock while disconnected: %v, want a Fault", err)
		}
		time.Sleep(6 * time.Second)
		if err := lease.Err(); err != nil {
			t.Errorf("before the ttl has passed: %v", err)
		}
		<-lease.Context().Done()
		if err := lease.Err(); !errors.Is(err, holdfast.ErrLost) {
			t.Errorf("after the ttl: %v, want ErrLost", err)
		}

		connection.Reconnect()
		if _, err := locks.Mutex("job").Lock(t.Context()); err != nil {
			t.Errorf("after Reconnect: %v", err)
		}
	})
}

// TestReconnectInTime: a lease survives a disconnection that is shorter than its ttl, and a grant whose notification
// was lost meanwhile is found.
func TestReconnectInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := memstore.NewServer()
		connection := server.Connect()
		one, two := holdfast.New(connection), holdfast.New(server.Connect())
		defer one.Close()
		defer two.Close()
		kept, err := one.Mutex("kept").Lock(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		job, err := two.Mutex("job").Lock(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		granted := make(chan error, 1)
		go func() {
			_, err := one.Mutex("job").Lock(t.Context())
			granted <- err
		}()
		synctest.Wait()

		connection.Disconnect()
		if err := job.Unlock(t.Context()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(15 * time.Second)
		connection.Reconnect()
		if err := <-granted; err != nil {
			t.Errorf("granted while disconnected: %v", err)
		}
		if err := kept.Err(); err != nil {
			t.Errorf("kept: %v", err)
		}
	})
}

// TestDisconnectEndsCallsUnderWay: a slow call fails when the connection is cut, and the request may still arrive.
func TestDisconnectEndsCallsUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		connection := memstore.NewServer().Connect()
		locks := holdfast.New(connection)
		defer locks.Close()
		connection.SetDelay(5 * time.Second)
		began := time.Now()
		time.AfterFunc(2*time.Second, connection.Disconnect)
		_, err := locks.Mutex("job").TryLock(t.Context())
		if _, ok := errors.AsType[*holdfast.Fault](err); !ok || time.Since(began) != 2*time.Second {
			t.Errorf("after %v: %v, want a Fault after 2s", time.Since(began), err)
		}
		connection.Reconnect()
		connection.SetDelay(0)
		if _, err := locks.Mutex("job").Lock(t.Context()); err != nil {
			t.Errorf("after Reconnect: %v", err)
		}
	})
}

// TestSetDelay: requests and notifications arrive that much later.
func TestSetDelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := memstore.NewServer()
		connection := server.Connect()
		connection.SetDelay(time.Second)
		slow, quick := holdfast.New(connection), holdfast.New(server.Connect())
		defer slow.Close()
		defer quick.Close()
		job, err := quick.Mutex("job").Lock(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		time.AfterFunc(3*time.Second, func() { job.Unlock(t.Context()) }) //nolint:errcheck // the grant shows it
		if _, err := slow.Mutex("job").Lock(t.Context()); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took != 4*time.Second {
			t.Errorf("granted after %v, want 3s and the delay of the notification", took)
		}
	})
}

// TestRevoke: the holder loses its lease at once, also under a prefix, and the next waiter is granted.
func TestRevoke(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := memstore.NewServer()
		one := holdfast.New(server.Connect(memstore.WithPrefix("shop/")))
		two := holdfast.New(server.Connect(memstore.WithPrefix("shop/")))
		defer one.Close()
		defer two.Close()
		if server.Revoke("job") {
			t.Error("a name that is not held was revoked")
		}
		lease, err := one.Mutex("job").Lock(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		next := make(chan error, 1)
		go func() {
			_, err := two.Mutex("job").Lock(t.Context())
			next <- err
		}()
		synctest.Wait()
		if !server.Revoke("job") {
			t.Error("not revoked")
		}
		synctest.Wait()
		if err := lease.Err(); !errors.Is(err, holdfast.ErrLost) {
			t.Errorf("the holder: %v, want ErrLost", err)
		}
		if err := <-next; err != nil {
			t.Errorf("the next waiter: %v", err)
		}
	})
}
