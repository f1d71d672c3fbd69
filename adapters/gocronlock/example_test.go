package gocronlock_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/go-co-op/gocron/v2"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/adapters/gocronlock"
	"github.com/holdfast-go/holdfast/memstore"
)

// The program runs on several machines. At each full hour one of them writes the report.
func ExampleLocker() {
	locks := holdfast.New(memstore.New()) // or holdfast.Open with the URL of the store that all machines use
	defer locks.Close()

	// The job takes no time, and the clocks of the machines differ by less than ten seconds.
	locker := gocronlock.NewLocker(locks, holdfast.WithAtLeast(10*time.Second))
	scheduler, err := gocron.NewScheduler(gocron.WithDistributedLocker(locker))
	if err != nil {
		log.Fatal(err)
	}
	defer scheduler.Shutdown()

	done := make(chan struct{})
	report := func(ctx context.Context) {
		ctx, _ = locker.Context(ctx) // it ends also when the lock is lost
		_, ok := holdfast.TokenFrom(ctx)
		fmt.Println("writing the report, with a token:", ok)
		close(done)
	}
	job, err := scheduler.NewJob(gocron.CronJob("0 * * * *", false), gocron.NewTask(report), gocron.WithName("report"))
	if err != nil {
		log.Fatal(err)
	}
	scheduler.Start()
	if err := job.RunNow(); err != nil { // the example does not wait for the hour
		log.Fatal(err)
	}
	<-done
	// Output:
	// writing the report, with a token: true
}

// One of the machines runs all jobs, and another one takes over when it ends.
func ExampleElector() {
	ctx := context.Background()
	server := memstore.NewServer() // stands for the server that all machines use
	here, elsewhere := holdfast.New(server.Connect()), holdfast.New(server.Connect())
	defer here.Close()
	defer elsewhere.Close()

	elector := gocronlock.NewElector(ctx, here, "schedulers", holdfast.WithLabel("10.0.0.7"))
	defer elector.Close()
	scheduler, err := gocron.NewScheduler(gocron.WithDistributedElector(elector))
	if err != nil {
		log.Fatal(err)
	}
	defer scheduler.Shutdown()

	for leader, err := range elsewhere.Election("schedulers").Observe(ctx) {
		if err == nil && leader.Info != "" {
			fmt.Println("jobs run on", leader.Info)
			break
		}
	}
	// Output:
	// jobs run on 10.0.0.7
}
