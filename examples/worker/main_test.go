package main

import (
	"bytes"
	"context"
	"strings"
	"sync"
	"testing"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/leaks"
	"github.com/holdfast-go/holdfast/internal/testkit"
)

func TestMain(m *testing.M) { leaks.Main(m) }

// A machine runs the program within the test.
type machine struct {
	stop context.CancelFunc
	code chan int
	mu   sync.Mutex
	log  bytes.Buffer
}

func (m *machine) Write(p []byte) (int, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.log.Write(p)
}

// count returns how often the program has logged a text.
func (m *machine) count(text string) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return strings.Count(m.log.String(), text)
}

func start(t *testing.T, args ...string) *machine {
	m := &machine{code: make(chan int, 1)}
	var ctx context.Context
	ctx, m.stop = context.WithCancel(t.Context())
	t.Cleanup(m.stop)
	go func() { m.code <- run(ctx, args, m) }()
	return m
}

// TestTakeOver: of two machines one leads. An operator breaks its leadership, and one leads again. When a leader is
// stopped, the other takes over.
func TestTakeOver(t *testing.T) {
	const url = "memory:worker"
	watch, err := holdfast.Open(t.Context(), url) // keeps the store while the machines come and go
	testkit.Must(t, err)
	defer watch.Close()
	machines := map[string]*machine{
		"a": start(t, "--store", url, "--label", "a"), "b": start(t, "--store", url, "--label", "b"),
	}
	leader := func(not holdfast.Token) (found holdfast.Leader) {
		t.Helper()
		testkit.Await(t, "one leads", func() bool {
			found, err = watch.Election("worker").Leader(t.Context())
			return err == nil && found.Token != not
		})
		return found
	}
	first := leader(0)
	testkit.Must(t, watch.Break(t.Context(), "worker", first.Token))
	testkit.Await(t, "the leader notices", func() bool {
		return machines[first.Info].count(`msg="no longer leading"`) == 1
	})
	second := leader(first.Token)
	machines[second.Info].stop()
	if code := <-machines[second.Info].code; code != 0 || machines[second.Info].count("msg=stopped") != 1 {
		t.Errorf("exit code %d", code)
	}
	third := leader(second.Token)
	if third.Info == second.Info {
		t.Errorf("%s leads, which was stopped", third.Info)
	}
	machines[third.Info].stop()
	if code := <-machines[third.Info].code; code != 0 {
		t.Errorf("exit code %d", code)
	}
}

// TestWrong: what does not start.
func TestWrong(t *testing.T) {
	for args, want := range map[string]int{
		"--help": 0, "--luck": 2, "me": 2, "--every=0": 2, "--store=nothing:": 1,
	} {
		if m := start(t, args); <-m.code != want {
			t.Errorf("%s: another exit code than %d: %s", args, want, &m.log)
		}
	}
}
