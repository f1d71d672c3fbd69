package consulstore_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/consulstore"
	"github.com/holdfast-go/holdfast/internal/servers"
	"github.com/holdfast-go/holdfast/internal/testkit"
)

// interopTurns is how many turns each side has at least.
const interopTurns = 4

// Programs under `consul lock` and clients in plain mode take turns: a directory that only one of them can make is
// never there when another comes. In queue mode both hold at once, and the same check sees that.
func TestConsulLock(t *testing.T) {
	t.Parallel()
	program := servers.Need(t, "consul")
	server := servers.Consul(t)
	for _, test := range []struct {
		mode     string
		options  []consulstore.Option
		excludes bool
	}{
		{"plain", []consulstore.Option{consulstore.WithPlainMode()}, true},
		{"line", nil, false},
	} {
		t.Run(test.mode, func(t *testing.T) {
			t.Parallel()
			options := append(slices.Clone(test.options), consulstore.WithTTL(10*sessionTTL))
			s, err := consulstore.Open(t.Context(), []string{server.Addr()}, options...)
			testkit.Must(t, err)
			client := holdfast.New(s)
			t.Cleanup(func() { testkit.Must(t, client.Close()) })
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
			defer cancel()
			room := &room{dir: filepath.Join(t.TempDir(), "inside")}
			done := make(chan struct{})
			go func() {
				defer close(done)
				for range interopTurns {
					command := exec.CommandContext(ctx, program, "lock", "-http-addr="+server.Addr(), test.mode,
						room.script())
					if output, err := command.CombinedOutput(); err != nil {
						t.Errorf("consul lock: %v\n%s", err, output)
					}
				}
			}()
			turns := 0
			for !isClosed(done) || test.excludes && turns < interopTurns {
				testkit.Must(t, client.Mutex(test.mode+"/.lock").Do(ctx, func(context.Context) error {
					turns++
					return room.visit()
				}))
			}
			if room.wasFull() == test.excludes {
				t.Errorf("in %s mode, of %d turns beside %d of consul lock, some overlapped: %v",
					test.mode, turns, interopTurns, !test.excludes)
			}
		})
	}
}

// A room is a directory that only one can make. A visitor who finds it made makes another beside it.
type room struct{ dir string }

// script makes the directory for a moment.
func (r *room) script() string {
	return fmt.Sprintf("mkdir %[1]s || mkdir -p %[1]s.full; sleep 0.1; rmdir %[1]s; true", r.dir)
}

// visit does the same.
func (r *room) visit() error {
	if os.Mkdir(r.dir, 0o700) != nil {
		return os.MkdirAll(r.dir+".full", 0o700)
	}
	time.Sleep(5 * time.Millisecond) // the work
	_ = os.Remove(r.dir)             // another may have, which is seen by then
	return nil
}

func (r *room) wasFull() bool {
	_, err := os.Stat(r.dir + ".full")
	return err == nil
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
