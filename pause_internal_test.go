//go:build unix

package holdfast

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/memstore"
)

const (
	pausedChildEnv = "HOLDFAST_TEST_PAUSED_CHILD"
	pausedTTL      = 3 * time.Second
)

// In the child this binary is that one program, not the tests.
func init() {
	if os.Getenv(pausedChildEnv) != "" {
		fmt.Println(pausedChild())
		os.Exit(0)
	}
}

// TestPausedProcess stops a real process that holds a lease for longer than its ttl. When it runs again, the
// first call must report that the lease is over.
func TestPausedProcess(t *testing.T) {
	child := exec.Command(os.Args[0])
	child.Env = append(os.Environ(), pausedChildEnv+"=1")
	child.Stderr = os.Stderr
	pipe, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	defer child.Wait()
	defer child.Process.Kill()
	says := bufio.NewScanner(pipe)
	if !says.Scan() || says.Text() != "held" {
		t.Fatalf("the child says %q", says.Text())
	}
	if err := child.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	time.Sleep(pausedTTL + pausedTTL/4) // the pause itself
	if err := child.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	if !says.Scan() || !strings.HasPrefix(says.Text(), "ok: ") {
		t.Fatalf("the child says %q", says.Text())
	}
	t.Log(says.Text())
}

// pausedChild holds a lease and checks it all the time. It keeps every other goroutine of
// the package from doing anything, by holding the client's lock: the call itself has to notice the loss.
func pausedChild() string {
	ctx := context.Background()
	c := New(memstore.New(), WithTTL(pausedTTL))
	l, err := c.Mutex("x").Lock(ctx)
	if err != nil {
		return err.Error()
	}
	leaseContext := l.Context().(*leaseContext)
	derived, cancel := context.WithCancel(leaseContext)
	defer cancel()
	c.mu.Lock()
	last := time.Now() // the pause may begin with the very next line
	fmt.Println("held")
	for {
		before := time.Now()
		if leaseContext.Context.Err() != nil {
			return "another goroutine ended the lease"
		}
		err := l.Err()
		switch after := time.Now(); {
		case err == nil && !before.Before(l.Until()):
			return fmt.Sprintf("a lie: at %v it said that it was held until %v", before, l.Until())
		case err == nil:
			last = before // the call began then, whenever it returned
			continue
		case after.Sub(last) < pausedTTL:
			return fmt.Sprintf("not paused: it was over %v after it last said that it was held", after.Sub(last))
		case derived.Err() == nil || leaseContext.Err() == nil:
			return "the lease is over and its contexts go on"
		default:
			return fmt.Sprintf("ok: paused for %v, and the first answer was: %v", after.Sub(last), err)
		}
	}
}
