package contend

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/holdfast-go/holdfast/internal/leaks"
)

// parentEnv makes this binary the parent of a crowd that is about to be orphaned.
const parentEnv = "HOLDFAST_TEST_CONTEND_PARENT"

// TestOrphans kills the parent of a crowd. The processes must end by themselves.
func TestOrphans(t *testing.T) {
	leaks.Orphans(t, "started", func(inherited *os.File) *exec.Cmd {
		parent := exec.Command(os.Args[0])
		parent.Env = append(os.Environ(), parentEnv+"="+t.TempDir())
		parent.Stderr = inherited
		return parent
	})
}

// beOrphaned starts a crowd, says so, and goes on until it is killed.
func beOrphaned(dir string) error {
	url := "sqlite:" + filepath.Join(dir, "locks.db")
	c, err := Start(context.Background(), Plan{Dir: dir, URLs: []string{url, url}, Goroutines: 4})
	if err != nil {
		return err
	}
	fmt.Println("started")
	for err == nil {
		err = c.Through(context.Background())
	}
	return err
}
