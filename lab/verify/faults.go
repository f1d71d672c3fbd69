package verify

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"time"

	"github.com/holdfast-go/holdfast/internal/child"
	"github.com/holdfast-go/holdfast/lab/contend"
	"github.com/holdfast-go/holdfast/lab/proxy"
	"github.com/holdfast-go/holdfast/lab/report"
)

// A fault is something that can be broken for a time.
type fault struct {
	name   string // as in --faults
	about  string // what it does, in a few words
	beyond string // why the store's guarantees do not cover it; empty: they do
	lasts  func(r *rand.Rand, ttl time.Duration) time.Duration
	strike strikeFunc
}

// A strikeFunc causes a fault, waits for as long as it lasts or until ctx is done, and undoes it. It returns the
// target, and the proof that the fault happened.
type strikeFunc func(ctx context.Context, s *stage, with Strike) (target, proof string, err error)

// Lengths of faults.
func moment(*rand.Rand, time.Duration) time.Duration { return 0 }

func lessThanTTL(r *rand.Rand, ttl time.Duration) time.Duration { return between(r, ttl/4, ttl*3/4) }

func moreThanTTL(r *rand.Rand, ttl time.Duration) time.Duration { return between(r, ttl*5/4, ttl*2) }

func anyTime(r *rand.Rand, ttl time.Duration) time.Duration { return between(r, ttl/4, ttl*2) }

// workerFaults returns the faults of workers.
func workerFaults() []fault {
	faults := []fault{
		{name: "kill", about: "a worker is killed with -9 and replaced", lasts: moment, strike: strikeKill},
		{name: "starve", about: "busy processes take the processors away", lasts: lessThanTTL, strike: strikeStarve},
	}
	if child.CanPause {
		faults = append(faults,
			fault{
				name: "pause", about: "a worker stands still for longer than the ttl",
				lasts: moreThanTTL, strike: strikePause,
			},
			fault{
				name: pauseWriter, about: "a worker stands still between reading a register and writing it",
				lasts: moreThanTTL, strike: strikePauseWriter,
			},
		)
	}
	return faults
}

// connectionFaults returns the faults of the connections of one worker, in its proxies.
func connectionFaults() []fault {
	through := func(do func(p *proxy.Proxy, with Strike) (undo func())) strikeFunc {
		return func(ctx context.Context, s *stage, with Strike) (target, proof string, err error) {
			slot := s.slots[with.Worker]
			defer slot.ways.each(func(p *proxy.Proxy) func() { return do(p, with) })()
			return slot.current().Name, "its proxies did it", sleep(ctx, with.For)
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
			name: "late", about: "requests of a worker, or replies to it, arrive after its claims have expired",
			lasts: moreThanTTL,
			strike: through(func(p *proxy.Proxy, with Strike) func() {
				return p.Hold([]proxy.Flow{proxy.Requests, proxy.Down}[with.Which%2])
			}),
		},
	}
}

func strikePause(ctx context.Context, s *stage, with Strike) (target, proof string, err error) {
	p := s.slots[with.Worker].current()
	if err := p.Pause(); err != nil {
		return p.Name, "", err
	}
	s.note(p.Name, report.Paused, func() { err = sleep(ctx, with.For) })
	return p.Name, "it got SIGSTOP, and SIGCONT after it", errors.Join(err, p.Resume())
}

const (
	writerPatience = 20 * time.Second // for a worker that is about to write
	// overtakePatience is for another worker to overtake it, beyond the time of a takeover. A file may stay locked for
	// as long as the worker is stopped.
	overtakePatience = 3 * time.Second
)

// pauseWriter is the name of the fault that only a fence can handle. If Which%2 of a strike is unfenced, its target is
// the register without a fence.
const (
	pauseWriter = "pause-writer"
	unfenced    = 1
)

// strikePauseWriter stops a worker between its read of a register and its write, for the time of the strike and until
// another worker has read the register.
func strikePauseWriter(ctx context.Context, s *stage, with Strike) (target, proof string, err error) {
	register := fencedRegister
	if with.Which%2 == unfenced {
		register = unfencedRegister
	}
	p, err := s.stopWriter(ctx, register)
	if p == nil || err != nil {
		return "nobody", "", err // no worker was about to write: there is nothing to do
	}
	s.note(p.Name, report.Paused, func() {
		if err = sleep(ctx, with.For); err != nil {
			return
		}
		waiting, cancel := context.WithTimeout(ctx, s.takeover+overtakePatience)
		defer cancel()
		for s.guard.writes(register, p.Name) {
			if sleep(waiting, time.Millisecond) != nil {
				return
			}
		}
		proof = "it got SIGSTOP before its write, and another read the register before SIGCONT"
	})
	return p.Name, proof, errors.Join(err, p.Resume())
}

// stopWriter stops the next worker that reads a register in order to write it, before it gets the value. It returns nil
// if there is none.
func (s *stage) stopWriter(ctx context.Context, register string) (*contend.Process, error) {
	waiting, cancel := context.WithTimeout(ctx, writerPatience)
	defer cancel()
	caught := make(chan error, 1)
	var p *contend.Process
	s.guard.arm(register, func(name string) {
		if p = s.processOf(name); p == nil {
			caught <- nil // it is being killed, and will not write
			return
		}
		caught <- p.Pause()
	})
	select {
	case err := <-caught:
		return p, err
	case <-waiting.Done():
	}
	if s.guard.disarm(register) {
		return nil, ctx.Err()
	}
	err := <-caught // at the last moment: it is being stopped, and must not be forgotten
	return p, err
}

func strikeKill(ctx context.Context, s *stage, with Strike) (target, proof string, err error) {
	slot := s.slots[with.Worker]
	p := slot.current()
	if err := p.Kill(); err != nil {
		return p.Name, "", err
	}
	s.note(p.Name, report.Killed, func() { err = slot.start(ctx, s) })
	return p.Name, fmt.Sprintf("it ended with %v", p.Cmd.ProcessState), err
}

// burners is how many processes starve the machine, for each processor.
const burners = 3

func strikeStarve(ctx context.Context, s *stage, with Strike) (target, proof string, err error) {
	var processes []*contend.Process
	for i := range burners * runtime.NumCPU() {
		p, e := s.startProcess(&order{Process: fmt.Sprint("burner ", i), Burn: with.For + time.Minute})
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
		err = errors.Join(err, p.Kill())
	}
	return "the machine", fmt.Sprintf("%d busy processes ran", len(processes)), err
}
