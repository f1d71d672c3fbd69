package leaks

import (
	"strings"
	"testing"
	"time"
)

func TestMain(m *testing.M) { Main(m) }

// What takes longer than goleak waits, and then ends, is no leak.
func TestSlowEnd(t *testing.T) {
	go time.Sleep(time.Second)
	if err := Find(); err != nil {
		t.Error(err)
	}
}

func TestLeak(t *testing.T) {
	end := make(chan struct{})
	go leftBehind(end)
	if err := find(time.Millisecond); err == nil || !strings.Contains(err.Error(), "leftBehind") {
		t.Errorf("%v, want what was left behind", err)
	}
	close(end)
}

func leftBehind(end chan struct{}) { <-end }
