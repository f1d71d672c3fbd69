package main

import (
	"slices"
	"time"
)

// A workload is what contestants are put to.
type workload struct {
	Name  string
	About string

	Processes  int // real ones
	Goroutines int // in each
	Names      int // goroutine i locks name i modulo this
	Work       time.Duration
	Pause      time.Duration // between giving back and asking again
	Lasts      time.Duration
	TTL        time.Duration

	// With Stops, one of the site's nodes stands still from the middle on.
	Stops bool

	// With Leases, so many are taken by the goroutines, and then held for a ttl.
	Leases int
	Fewer  bool // they are fewer than usual

	maxRounds int // it is not measured in more; 0: in all

	columns  []metric // what the table shows
	compared []metric // those of which it shows ratios
}

// contended says whether workers ever wait for each other.
func (w *workload) contended() bool { return w.Processes*w.Goroutines > w.Names }

var (
	alone = []metric{throughput, cycleP50, cycleP99, callsPerOp, clientPerOp, serverPerOp, overlapCount,
		errorCount}
	inProcess = []metric{throughput, waitP50, waitP99, evenP50, evenP99, fairShare, callsPerOp, overlapCount,
		errorCount}
	byHandover = []metric{throughput, waitP50, waitP99, evenP50, evenP99, fairShare, handoverRate, handoverP50,
		handoverP99, callsPerOp, overlapCount, errorCount}
	whileUsed = slices.Concat([]metric{throughput, inUse}, byHandover[1:])
	halves    = []metric{throughput, beforeP50, afterP50, afterP99, afterToBefore, overlapCount, errorCount}
	keeping   = []metric{acquireRate, goroutinesEach, bytesEach, clientCPU, serverCPU, calls, serverCommands,
		lostCount}
)

// workloads are the cases. Quick ones are for seeing that all works: their numbers say little.
func workloads(quick bool) []*workload {
	lasts, paced, ttl, leases, few := 2*time.Second, 5*time.Second, 30*time.Second, 100_000, 10_000
	if quick {
		lasts, paced, ttl, leases, few = 300*time.Millisecond, 600*time.Millisecond, 3*time.Second, 5_000, 1_000
	}
	all := []*workload{
		{
			Name: "one", About: "1 goroutine, 1 name",
			Processes: 1, Goroutines: 1, Names: 1, Lasts: lasts,
			columns: alone, compared: []metric{throughput, cycleP50, cycleP99, clientPerOp},
		},
		{
			Name: "names", About: "64 goroutines, 64 names, 1 process",
			Processes: 1, Goroutines: 64, Names: 64, Lasts: lasts,
			columns: alone, compared: []metric{throughput, cycleP50, cycleP99},
		},
		{
			Name: "goroutines", About: "64 goroutines, 1 name, 1 process",
			Processes: 1, Goroutines: 64, Names: 1, Lasts: lasts,
			columns: inProcess, compared: []metric{throughput, waitP50, waitP99, evenP50, evenP99},
		},
		{
			Name: "processes", About: "8 processes, 1 name, no work",
			Processes: 8, Goroutines: 1, Names: 1, Lasts: lasts,
			columns: byHandover,
			compared: []metric{
				throughput, waitP50, waitP99, evenP50, evenP99, handoverRate, handoverP50, handoverP99,
			},
		},
		{
			Name: "work", About: "8 processes, 1 name, 2 ms of work and 10 ms between",
			Processes: 8, Goroutines: 1, Names: 1, Lasts: paced,
			Work: 2 * time.Millisecond, Pause: 10 * time.Millisecond,
			columns: whileUsed, compared: []metric{throughput, inUse, waitP50, waitP99, evenP50, evenP99, handoverRate},
		},
		{
			Name: "stopped", About: "1 goroutine, 1 name, and from the middle on one node stands still",
			Processes: 1, Goroutines: 1, Names: 1, Lasts: 2 * lasts, Stops: true,
			columns: halves, compared: []metric{beforeP50, afterP50, afterP99},
		},
		{
			Name: "idle", About: "leases held for a ttl by 1 process, of which a database has fewer",
			Processes: 1, Goroutines: 64, Names: few, Leases: few, Fewer: true, TTL: ttl, maxRounds: 3,
			columns: keeping, compared: []metric{clientCPU, serverCPU},
		},
		{
			Name: "leases", About: "many leases held for a ttl by 1 process",
			Processes: 1, Goroutines: 64, Names: leases, Leases: leases, TTL: ttl, maxRounds: 3,
			columns: keeping, compared: []metric{clientCPU, serverCPU},
		},
	}
	for _, w := range all {
		if w.TTL == 0 {
			w.TTL = lockTTL
		}
	}
	return all
}

// takes is about how long a measurement takes, with starting and ending its processes.
func (w *workload) takes() time.Duration {
	if w.Leases > 0 {
		return w.TTL + time.Duration(w.Leases)*100*time.Microsecond
	}
	return w.Lasts + 100*time.Millisecond + time.Duration(w.Processes)*20*time.Millisecond
}

// limit is how long a measurement may take before it counts as failed.
func (w *workload) limit() time.Duration { return 4*w.takes() + time.Minute }

// lockTTL is the ttl of everybody, but for workloads that are about it. It is longer than a measurement, so that
// nothing runs out.
const lockTTL = 10 * time.Second
