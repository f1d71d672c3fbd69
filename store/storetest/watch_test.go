package storetest

import (
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// TestWatchdog runs itself in a second process, which hangs.
func TestWatchdog(t *testing.T) {
	const child = "STORETEST_HANGS"
	if os.Getenv(child) != "" {
		defer watch("the case", time.Millisecond)()
		hangs(make(chan struct{}))
	}
	cmd := exec.Command(os.Args[0], "-test.run=^TestWatchdog$")
	cmd.Env = append(os.Environ(), child+"=1")
	out, err := cmd.CombinedOutput()
	if err == nil {
		t.Fatal("a case that hangs did not end the process")
	}
	for _, want := range []string{"the case has not ended in 1ms", "storetest.hangs"} {
		if !strings.Contains(string(out), want) {
			t.Errorf("the watchdog does not report %q:\n%s", want, out)
		}
	}
}

func hangs(forever chan struct{}) { <-forever }
