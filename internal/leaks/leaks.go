// Package leaks fails a test binary that leaves goroutines behind, or a parent that leaves processes.
package leaks

import (
	"fmt"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// patience is how long a goroutine may take to end after the last test. Goleak waits less than half a second, which is
// too short on a busy machine.
const patience = 15 * time.Second

// Main runs the tests and exits. It is for TestMain.
func Main(m *testing.M) {
	code := m.Run()
	if code == 0 {
		if err := Find(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}

// Find returns nil once no goroutine is left that a test has started, and otherwise an error that lists them.
func Find() error { return find(patience) }

func find(patience time.Duration) error {
	for deadline := time.Now().Add(patience); ; {
		if err := goleak.Find(); err == nil || time.Now().After(deadline) {
			return err
		}
	}
}
