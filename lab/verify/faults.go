package verify

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"time"

	"github.com/holdfast-go/holdfast/internal/child"
	"github.com/holdfast-go/holdfast/lab/proxy"
)

// A fault is something that can be broken for a while.
type fault struct {
	name   string // as in --faults
	about  string // what is done, in a few words
	beyond string // why the store's guarantees do not cover it; empty: they do
	lasts  func(r *rand.Rand, ttl time.Duration) time.Duration
	// strike does it, waits for as long as it lasts or until ctx is done, and mends it. It says to whom it was done, and
	// how that is known.
	strike func(ctx context.Context, s *stage, with Strike) (target, proof string, err error)
}

// Lengths of faults.
func moment(*rand.Rand, time.Duration) time.Duration { return 0 }

func lessThanTTL(r *rand.Rand, ttl time.Duration) time.Duration { return between(r, ttl/4, ttl*3/4) }

func moreThanTTL(r *rand.Rand, ttl time.Duration) time.Duration { return between(r, ttl*5/4, ttl*2) }

func anyTime(r *rand.Rand, ttl time.Duration) time.Duration { return between(r, ttl/4, ttl*2) }

// workerFaults are those that are done to workers.
func workerFaults() []fault {
	faults := []fault{
		{name: "kill", about: "a worker is killed with -9 and replaced", lasts: moment, strike: strikeKill},
		{name: "starve", about: "busy processes take the processors away", lasts: lessThanTTL, strike: strikeStarve},
	}
	if child.CanPause {
		faults = append(faults,
			fault{name: "pause", about: "a worker stands still for longer than the ttl", lasts: moreThanTTL, strike: strikePause},
			fault{
				name: "pause-writer", about: "a worker stands still between reading a register and writing it",
				lasts: moreThanTTL, strike: strikePauseWriter,
			})
	}
	return faults
}

// connectionFaults are those that are done to the connections of one worker, in its proxies.
func connectionFaults() []fault {
	through := func(do func(p *proxy.Proxy, with Strike) (undo func())) func(context.Context, *stage, Strike) (string, string, error) {
		return func(ctx context.Context, s *stage, with Strike) (target, proof string, err error) {
			slot := s.slots[with.Worker]
			defer slot.ways.each(func(p *proxy.Proxy) func() { return do(p, with) })()
			return slot.current().name, "its proxies did it", sleep(ctx, with.For)
		}
	}
	return []fault{
		{
			name: "cut", about: "the connections of a worker break, and new ones are refused", lasts: anyTime,
			strike: through(func(p *proxy.Proxy, _ Strike) func() { return p.Cut() }),
		},
		{
			name: "silence", about: "a worker is cut off without a word", lasts: anyTime,
			strike: through(func(p *proxy.Proxy, _ Strike) func() { return p.Silence(proxy.All) }),
		},
		{
			name: "delay", about: "what a worker sends and hears takes longer", lasts: anyTime,
			strike: through(func(p *proxy.Proxy, with Strike) func() { return p.Delay(proxy.All, with.For/8) }),
		},
		{
			name: "late", about: "requests of a worker, or replies to it, arrive after its claims have expired", lasts: moreThanTTL,
			strike: through(func(p *proxy.Proxy, with Strike) func() {
				return p.Hold([]proxy.Flow{proxy.Requests, proxy.Down}[with.Which%2])
			}),
		},
	}
}

func strikePause(ctx context.Context, s *stage, with Strike) (target, proof string, err error) {
	return s.pause(ctx, s.slots[with.Worker].current(), with.For)
}

// writerPatience is how long to wait for a worker that is about to write.
const writerPatience = 10 * time.Second

func strikePauseWriter(ctx context.Context, s *stage, with Strike) (target, proof string, err error) {
	waiting, cancel := context.WithTimeout(ctx, writerPatience)
	defer cancel()
	name, err := s.guard.awaitWriter(waiting, []string{fencedRegister, unfencedRegister}[with.Which%2])
	if err != nil && ctx.Err() == nil {
		return "nobody", "", nil // nobody came to write: there is nothing to do
	}
	p := s.processOf(name)
	if err != nil || p == nil {
		return "nobody", "", err
	}
	return s.pause(ctx, p, with.For)
}

// pause stops a process for d.
func (s *stage) pause(ctx context.Context, p *process, d time.Duration) (target, proof string, err error) {
	if err := p.pause(); err != nil {
		return p.name, "", err
	}
	s.note(p.name, paused, func() { err = sleep(ctx, d) })
	return p.name, "it got SIGSTOP, and SIGCONT after it", errors.Join(err, p.resume())
}

func strikeKill(ctx context.Context, s *stage, with Strike) (target, proof string, err error) {
	slot := s.slots[with.Worker]
	p := slot.current()
	if err := p.kill(); err != nil {
		return p.name, "", err
	}
	s.note(p.name, killed, func() { err = slot.start(ctx, s) })
	return p.name, fmt.Sprintf("it ended with %v", p.Cmd.ProcessState), err
}

// burners is how many processes starve the machine, for each processor.
const burners = 3

func strikeStarve(ctx context.Context, s *stage, with Strike) (target, proof string, err error) {
	var processes []*process
	for i := range burners * runtime.NumCPU() {
		p, e := startProcess(s.plan.Command, &order{Process: fmt.Sprint("burner ", i), Burn: with.For + time.Minute})
		if e != nil {
			err = e
			break
		}
		processes = append(processes, p)
	}
	if err == nil {
		err = sleep(ctx, with.For)
	}
	for _, p := range processes {
		err = errors.Join(err, p.kill())
	}
	return "the machine", fmt.Sprintf("%d busy processes ran", len(processes)), err
}
