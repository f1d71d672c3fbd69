package sqlite_test

import (
	"path/filepath"
	"testing"

	"github.com/holdfast-go/holdfast/lab/contend"
	_ "github.com/holdfast-go/holdfast/sqlstore/sqlite"
)

// This binary is also the program of the processes that come at once.
func init() { contend.Child() }

// TestStampede: without hand-over there are fewer goroutines. Each claim costs what the line is long, and 2,000 in one
// line take minutes with the race detector.
func TestStampede(t *testing.T) {
	url := "sqlite:" + filepath.Join(t.TempDir(), "locks.db")
	contend.Stampede(t, contend.Herd{URL: url, Alone: 200, Processes: 50})
}
