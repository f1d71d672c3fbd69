package report_test

import (
	"fmt"
	"os"
	"time"

	"github.com/holdfast-go/holdfast/lab/check"
	"github.com/holdfast-go/holdfast/lab/history"
	"github.com/holdfast-go/holdfast/lab/report"
)

// A lock that expired while its holder was paused was granted again, and then two believed to hold it.
func Example() {
	at := func(ms int) history.Instant { return history.Instant(time.Duration(ms) * time.Millisecond) }
	holds := []history.Hold{
		{
			Who: history.Who{Process: "worker 1"}, Resource: "stock", Kind: history.Exclusive, Token: 2560,
			Interval: history.Interval{Begin: at(10), End: at(700)},
		},
		{
			Who: history.Who{Process: "worker 2"}, Resource: "stock", Kind: history.Exclusive, Token: 2816,
			Interval: history.Interval{Begin: at(510), End: at(800)},
		},
	}
	run := &report.Run{
		Title: "a lock without renewal", Store: "redis://127.0.0.1", Command: "holdfast lab run no-renewal --seed 1",
		Seed: 1, Started: time.Date(2026, 2, 3, 4, 5, 6, 0, time.UTC), Operations: 2,
		Interval: history.Interval{Begin: at(0), End: at(1000)},
		Faults: []report.Fault{{
			Name: "pause", Target: "worker 1", Interval: history.Interval{Begin: at(100), End: at(650)},
			Proof: "it wrote nothing down",
		}},
	}
	run.AddHolds(holds)
	run.AddCheck("mutual exclusion", "Holds that exclude each other are never believed at once.",
		len(holds), check.Overlap(holds))
	if err := run.WriteText(os.Stdout); err != nil {
		fmt.Println(err)
	}
	// Output:
	// a lock without renewal: BROKEN
	// The checks found 1 violation in 2 operations under 1 fault. Each one proves that a promise was broken.
	//
	//   store      redis://127.0.0.1
	//   began      2026-02-03 04:05:06 UTC
	//   lasted     1s
	//   seed       1
	//   workers    2
	//   operations 2
	//   faults     1
	//   violations 1
	//   repeat     holdfast lab run no-renewal --seed 1
	//
	// mutual exclusion: 1 violation in 2 events
	//   Holds that exclude each other are never believed at once.
	//   at 510ms, exclusion of "stock": two were held at once for 190ms, and they exclude each other
	//     exclusive hold by worker 1 with token 2560, from 10ms to 700ms
	//     exclusive hold by worker 2 with token 2816, from 510ms to 800ms
	//
	// 1 fault:
	//        1  pause
}
