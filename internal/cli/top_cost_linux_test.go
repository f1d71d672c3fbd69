package cli

import (
	"context"
	"flag"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/servers"
)

var topCost = flag.Duration("topcost", 0, "measure for so long what holdfast top costs; see docs/operations.md")

// TestTopCost measures what watching 10,000 names costs, of which 1,000 change every second: at the server, which is a
// Redis, and at the viewer. It needs a machine with nothing else to do:
//
//	go test ./internal/cli -run TestTopCost -topcost 30s -v
func TestTopCost(t *testing.T) {
	if *topCost == 0 {
		t.Skip("it runs with -topcost 30s only")
	}
	server := servers.Redis(t)
	url := "redis://" + server.Addr()
	locks, err := holdfast.Open(t.Context(), url, holdfast.WithLabel("cost"), holdfast.WithTTL(time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	defer locks.Close()
	const names, changes, workers = 10_000, 1000, 10
	leases := make([]*holdfast.Lease, names)
	for i := range leases {
		if leases[i], err = locks.Mutex(fmt.Sprint("cost/", i)).Lock(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var load sync.WaitGroup
	for w := range workers { // each releases a name of its own and takes it again, which are two changes
		load.Go(func() {
			tick := time.NewTicker(2 * workers * time.Second / changes)
			defer tick.Stop()
			for i := w; ctx.Err() == nil; i = (i + workers) % names {
				_ = leases[i].Unlock(ctx) // the test ends meanwhile
				if l, err := locks.Mutex(fmt.Sprint("cost/", i)).Lock(ctx); err == nil {
					leases[i] = l
				}
				<-tick.C
			}
		})
	}
	time.Sleep(5 * time.Second)
	measure := func(pid int) float64 {
		before := cpuOf(t, pid)
		time.Sleep(*topCost)
		return 100 * (cpuOf(t, pid) - before).Seconds() / topCost.Seconds()
	}
	alone := measure(server.Pid())
	s := startTop(t, url, "--interval=1s")
	s.shows([]string{"10000 of 10000 queues"})
	viewer := cpuOf(t, s.cmd.Process.Pid)
	watched := measure(server.Pid())
	viewed := 100 * (cpuOf(t, s.cmd.Process.Pid) - viewer).Seconds() / topCost.Seconds()
	cancel()
	load.Wait()
	t.Logf("per cent of a core: Redis %.1f without top and %.1f with it, the viewer %.1f", alone, watched, viewed)
	if watched-alone > 5 || viewed > 20 {
		t.Errorf("top costs %.1f %% at the server and %.1f %% at the viewer, want at most 5 and 20", watched-alone,
			viewed)
	}
}

// cpuOf returns how much time of a processor a process has used.
func cpuOf(t *testing.T, pid int) time.Duration {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), ") ")
	fields := strings.Fields(rest)
	ticks := 0
	for _, field := range fields[11:13] { // utime and stime
		n, err := strconv.Atoi(field)
		if err != nil {
			t.Fatal(err)
		}
		ticks += n
	}
	return time.Duration(ticks) * time.Second / 100
}
