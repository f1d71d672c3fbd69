package stores_test

import (
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/testkit"
)

// mostFrames is how many functions of this module there may be from Lock to the connection, both included.
const mostFrames = 8

// TestFramesOfLock: one goroutine acquires a free lock repeatedly, and another samples its stack. From Lock to the
// connection there are few functions to read.
func TestFramesOfLock(t *testing.T) {
	for _, c := range []struct {
		name       string   // in urls
		connection []string // prefixes of the functions that are the connection
	}{
		{"memory", []string{module + "/memstore.(*Server).join"}},
		{"sqlite", []string{"database/sql.", "modernc.org/"}},
		{"redis", []string{module + "/internal/rediswire.(*conn).run("}},
		{"etcd", []string{"go.etcd.io/", "google.golang.org/"}},
		{"zk", []string{module + "/zkstore.(*client).multi("}}, // a goroutine calls the library, which has no contexts
		{"consul", []string{"net/http.(*Client)."}},
		{"postgres", []string{"database/sql.", "github.com/jackc/pgx/"}},
		{"mysql", []string{"database/sql.", "github.com/go-sql-driver/"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			locks, err := holdfast.Open(t.Context(), urls[c.name](t))
			if err != nil {
				t.Fatal(err)
			}
			defer locks.Close()
			use := func() error {
				lease, err := locks.Mutex("x").Lock(t.Context())
				if err != nil {
					return err
				}
				return lease.Unlock(t.Context())
			}
			for range 10 { // at first scripts are loaded, sessions opened, statements prepared
				testkit.Must(t, use())
			}
			var done atomic.Bool
			stopped := make(chan struct{})
			go func() {
				defer close(stopped)
				for !done.Load() {
					if err := use(); err != nil {
						t.Error(err)
						return
					}
				}
			}()
			stack := deepest(c.connection, 20)
			done.Store(true)
			<-stopped
			t.Logf("%d functions from Lock to the connection", len(stack))
			if len(stack) == 0 || len(stack) > mostFrames {
				t.Errorf("want 1 to %d functions:\n%s", mostFrames, strings.Join(stack, "\n"))
			}
		})
	}
}

const module = "github.com/holdfast-go/holdfast"

// deepest samples stacks until as many as samples lead from Lock to the connection. It returns the longest of them, of
// which only functions of this module count.
func deepest(connection []string, samples int) (longest []string) {
	buffer := make([]byte, 1<<20)
	for deadline := time.Now().Add(time.Minute); samples > 0 && time.Now().Before(deadline); {
		all := string(buffer[:runtime.Stack(buffer, true)])
		for goroutine := range strings.SplitSeq(all, "\n\n") {
			if found := fromLock(goroutine, connection); found != nil {
				samples--
				if len(found) > len(longest) {
					longest = found
				}
			}
		}
		time.Sleep(time.Microsecond)
	}
	return longest
}

// fromLock returns the part of a stack from Lock to the connection, or nil if it has none.
func fromLock(goroutine string, connection []string) (calls []string) {
	locking := false
	for _, call := range slices.Backward(strings.Split(goroutine, "\n")) {
		if strings.HasPrefix(call, "\t") || strings.HasPrefix(call, "created by ") {
			continue
		}
		locking = locking || strings.HasPrefix(call, module+".(*Mutex).Lock(")
		if locking && strings.HasPrefix(call, module) {
			calls = append(calls, call)
		}
		isThere := func(name string) bool { return strings.HasPrefix(call, name) }
		if locking && slices.ContainsFunc(connection, isThere) {
			return calls
		}
	}
	return nil
}
