package contend

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// parentEnv makes this binary the parent of a crowd that is about to be orphaned.
const parentEnv = "HOLDFAST_TEST_CONTEND_PARENT"

// TestOrphans kills the parent of a crowd. The processes must end by themselves. They have inherited a pipe: when its
// other end sees the end of it, they are all gone.
func TestOrphans(t *testing.T) {
	alive, inherited, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer alive.Close()
	parent := exec.Command(os.Args[0])
	parent.Env = append(os.Environ(), parentEnv+"="+t.TempDir())
	parent.Stderr = inherited
	out, err := parent.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := parent.Start(); err != nil {
		t.Fatal(err)
	}
	inherited.Close()
	says := bufio.NewScanner(out)
	if !says.Scan() || says.Text() != "started" {
		t.Errorf("the parent says %q", says.Text())
	}
	if err := parent.Process.Kill(); err != nil {
		t.Error(err)
	}
	parent.Wait() //nolint:errcheck // it was killed

	if err := alive.SetReadDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	if said, err := io.ReadAll(alive); err != nil {
		t.Errorf("a process has outlived its parent: %v; it said %q", err, said)
	}
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
