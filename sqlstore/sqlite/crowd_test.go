package sqlite_test

import (
	"path/filepath"
	"testing"

	"github.com/holdfast-go/holdfast/lab/contend"
	_ "github.com/holdfast-go/holdfast/sqlstore/sqlite"
)

// This binary is also the program of the processes that come at once.
func init() { contend.Child() }

func TestStampede(t *testing.T) {
	contend.Stampede(t, contend.Herd{URL: "sqlite:" + filepath.Join(t.TempDir(), "locks.db"), Processes: 50})
}
