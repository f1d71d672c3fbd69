package contend

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/leaks"
	// a store of each process alone: between processes it locks nothing
	_ "github.com/holdfast-go/holdfast/memstore"
	_ "github.com/holdfast-go/holdfast/sqlstore/sqlite" // a store that needs no server
)

func TestMain(m *testing.M) {
	Child()
	if dir := os.Getenv(parentEnv); dir != "" {
		fmt.Println(beOrphaned(dir)) // it is killed before it comes to this
		os.Exit(1)
	}
	leaks.Main(m)
}

// patience is for what must happen, on a machine that is busy.
const patience = 30 * time.Second

func within(t *testing.T, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

// startCrowd starts two processes, with these URLs.
func startCrowd(t *testing.T, urls ...string) *Crowd {
	t.Helper()
	c, err := Start(within(t, patience), Plan{Dir: t.TempDir(), URLs: urls, Goroutines: 4})
	must(t, err)
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

func sqliteURL(t *testing.T) string {
	t.Helper()
	return "sqlite:" + filepath.Join(t.TempDir(), "locks.db")
}

func through(t *testing.T, c *Crowd) {
	t.Helper()
	must(t, c.Through(within(t, patience)))
}

func stop(t *testing.T, c *Crowd) *Outcome {
	t.Helper()
	o, err := c.Stop(within(t, patience))
	must(t, err)
	return o
}

// must ends the test if there is an error.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
