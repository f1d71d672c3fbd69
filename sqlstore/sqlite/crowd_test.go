package sqlite_test

import (
	"path/filepath"
	"testing"

	"github.com/holdfast-go/holdfast/lab/contend"
	_ "github.com/holdfast-go/holdfast/sqlstore/sqlite"
)

// This binary is also the program of the processes that come at once.
func init() { contend.Child() }

// TestStampede has fewer goroutines where nothing is handed over: 2,000 claims in one queue take minutes with the race
// detector on a busy machine.
func TestStampede(t *testing.T) {
	url := "sqlite:" + filepath.Join(t.TempDir(), "locks.db")
	contend.Stampede(t, contend.Herd{URL: url, Alone: 200, Processes: 50})
}
