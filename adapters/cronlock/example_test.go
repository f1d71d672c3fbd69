package cronlock_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/robfig/cron/v3"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/adapters/cronlock"
	"github.com/holdfast-go/holdfast/memstore"
)

// The program runs on several machines. Each night at three o'clock one of them writes the report.
func ExampleOnce() {
	ctx := context.Background()           // or one that ends with the program
	locks := holdfast.New(memstore.New()) // or holdfast.Open with the URL of the store that all machines use
	defer locks.Close()

	schedule, err := cron.ParseStandard("CRON_TZ=UTC 0 3 * * *")
	if err != nil {
		log.Fatal(err)
	}
	// The clocks differ by less than ten seconds, and no machine is later than that.
	once, err := cronlock.NewOnce(locks, "report", schedule, 10*time.Second)
	if err != nil {
		log.Fatal(err)
	}
	c := cron.New()
	c.Schedule(schedule, once.Job(ctx, func(ctx context.Context) error {
		return nil // writes the report
	}))
	c.Start()
	defer c.Stop()

	// What the machines agree on, although one is late and the other early:
	for _, clock := range []string{"2026-11-18T03:00:00.4Z", "2026-11-18T02:59:58.1Z"} {
		now, _ := time.Parse(time.RFC3339Nano, clock)
		fire, err := once.FireTime(now)
		fmt.Println(fire.UTC().Format(time.RFC3339), err)
	}
	// Output:
	// 2026-11-18T03:00:00Z <nil>
	// 2026-11-18T03:00:00Z <nil>
}

// A job that may take longer than the time between two runs is skipped while another machine runs it.
func ExampleSkip() {
	ctx := context.Background()
	locks := holdfast.New(memstore.New())
	defer locks.Close()

	skip, err := cronlock.NewSkip(locks.Mutex("import", holdfast.WithAtLeast(10*time.Second)))
	if err != nil {
		log.Fatal(err)
	}
	job := skip.Job(ctx, func(ctx context.Context) error {
		token, ok := holdfast.TokenFrom(ctx) // for writes; ctx ends when the lock is lost
		fmt.Println("importing, with a token:", ok && token > 0)
		return ctx.Err()
	})
	c := cron.New()
	if _, err := c.AddJob("*/5 * * * *", job); err != nil {
		log.Fatal(err)
	}
	c.Start()
	defer c.Stop()

	job.Run() // the example does not wait for five minutes
	job.Run() // too soon: it is skipped
	// Output:
	// importing, with a token: true
}
