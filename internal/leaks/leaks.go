// Package leaks fails a test binary that leaves goroutines behind, or a parent that leaves processes.
package leaks

import (
	"fmt"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// patience is how long a goroutine may take to end after the last test. Goleak gives it less than half a second, which on a
// busy machine says nothing.
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

// Find is nil once there is nothing left that a test has started, and otherwise says what there is.
func Find() error { return find(patience) }

func find(patience time.Duration) error {
	for deadline := time.Now().Add(patience); ; {
		if err := goleak.Find(); err == nil || time.Now().After(deadline) {
			return err
		}
	}
}
