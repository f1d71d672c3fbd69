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

// mostFrames is how many functions of this module may lie between a call of Lock and the connection, both included.
const mostFrames = 8

// TestFramesOfLock: a free lock is taken again and again, and the stack is looked at from outside whenever it reaches
// the connection. Between the two there are few functions to read.
func TestFramesOfLock(t *testing.T) {
	for _, c := range []struct {
		name       string   // in urls
		connection []string // how the functions are called that are the connection, or the way there: their beginnings
	}{
		{"memory", []string{module + "/memstore.(*Server).join"}},
		{"sqlite", []string{"database/sql.", "modernc.org/"}},
		{"redis", []string{"github.com/redis/rueidis."}},
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
			for range 10 { // the first time is another way: scripts are loaded, sessions opened, statements prepared
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

// deepest looks at stacks until it has seen so many that lead from Lock to the connection, and returns the longest, as
// far as it is of functions of this module.
func deepest(connection []string, looks int) (longest []string) {
	buffer := make([]byte, 1<<20)
	for deadline := time.Now().Add(time.Minute); looks > 0 && time.Now().Before(deadline); {
		all := string(buffer[:runtime.Stack(buffer, true)])
		for goroutine := range strings.SplitSeq(all, "\n\n") {
			if found := fromLock(goroutine, connection); found != nil {
				looks--
				if len(found) > len(longest) {
					longest = found
				}
			}
		}
		time.Sleep(time.Microsecond)
	}
	return longest
}

// fromLock is the part of a stack between Lock and the connection, or nil if it is of something else.
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
