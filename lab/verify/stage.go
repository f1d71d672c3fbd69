package verify

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/lab/contend"
	"github.com/holdfast-go/holdfast/lab/history"
	"github.com/holdfast-go/holdfast/lab/report"
	"github.com/holdfast-go/holdfast/store"
)

const (
	shortTTL      = 2 * time.Second  // of claims, unless the URL or the store says otherwise
	goroutines    = 5                // of each worker
	startPatience = 60 * time.Second // for a worker to open its store
	stopPatience  = farewell + 10*time.Second
	slack         = 20 * time.Second // what a busy machine may add to what a store promises
)

// A stage is a store, the workers that take its locks, and what can be done to them.
type stage struct {
	plan     *Plan
	url      string
	at       store.Location
	locks    *holdfast.Client // the coordinator's own
	can      store.Abilities
	ttl      time.Duration
	takeover time.Duration // within which the claim of a dead holder is taken out
	dir      string
	prefix   string
	guard    *guard
	slots    []*slot
	faults   []fault  // all that can be done here
	leftOut  []string // what cannot

	began   history.Instant
	mended  history.Instant // when all faults were over; 0: the run was stopped
	settled bool            // every goroutine of every worker got a lock after that
	spans   []span
	struck  []struck
}

// A span is what was done to a process.
type span struct {
	process string
	report.Span
}

// A struck is a fault that was done.
type struck struct {
	fault
	report.Fault
}

// A slot is a worker and those that have replaced it, with their connections.
type slot struct {
	number int
	ways   ways

	mu    sync.Mutex
	lives []*contend.Process
}

// openStage opens the store and starts what the workers need, and the workers.
func openStage(ctx context.Context, p *Plan, url string, more []fault) (s *stage, err error) {
	s = &stage{plan: p, url: url, prefix: Prefix + rand.Text()[:6] + "/"}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.Close())
		}
	}()
	if err := s.open(ctx); err != nil {
		return s, err
	}
	if s.dir, err = os.MkdirTemp("", "holdfast-verify-"); err != nil {
		return s, fmt.Errorf("holdfast: verify: %w", err)
	}
	if s.guard, err = startGuard(s.dir); err != nil {
		return s, err
	}
	s.faults = workerFaults()
	why := unproxied(s.at)
	if why == "" {
		s.faults = append(s.faults, connectionFaults()...)
	} else {
		s.leftOut = append(s.leftOut, "faults of connections: "+why)
	}
	s.faults = append(s.faults, more...)
	s.leftOut = append(s.leftOut, lacking(s.can)...)
	for i := range p.Workers {
		slot := &slot{number: i + 1}
		s.slots = append(s.slots, slot)
		if why == "" {
			if slot.ways, err = newWays(s.at); err != nil {
				return s, err
			}
		}
		if err := slot.start(ctx, s); err != nil {
			return s, err
		}
	}
	return s, nil
}

// open opens the store for the coordinator, and learns what it can do.
func (s *stage) open(ctx context.Context) (err error) {
	if s.at, err = store.ParseLocation(s.url); err != nil {
		return fmt.Errorf("holdfast: %w", err)
	}
	given := s.at.TTL
	if given == 0 {
		s.at.TTL = shortTTL
	}
	opened, err := store.Open(ctx, s.at)
	if _, fault := errors.AsType[*store.Fault](err); err != nil && given == 0 && (!fault || store.Final(err)) {
		// The ttl may be too short for this store, and its own is long enough.
		itsOwn := s.at
		itsOwn.TTL = 0
		if again, e := store.Open(ctx, itsOwn); e == nil {
			opened, err = again, nil
		}
	}
	if err != nil {
		return &holdfast.Error{Op: "open", Store: s.at.ShownFor(err), Err: err}
	}
	s.can = opened.Abilities()
	if s.ttl = max(s.at.TTL, s.can.MinTTL, s.can.SessionTTL); s.can.MaxTTL > 0 {
		s.ttl = min(s.ttl, s.can.MaxTTL)
	}
	s.at.TTL = s.ttl
	s.takeover = time.Duration(s.can.TakeoverTTLs)*s.ttl + s.can.TakeoverPlus
	s.locks = holdfast.New(opened, holdfast.WithTTL(s.ttl))
	return nil
}

// bound is how long a wait may last while nothing is broken.
func (s *stage) bound() time.Duration { return s.takeover + slack }

// start starts a worker, or one that replaces it.
func (l *slot) start(ctx context.Context, s *stage) error {
	name := fmt.Sprint("worker ", l.number)
	if n := len(l.lives); n > 0 {
		name += fmt.Sprintf(" (%d)", n+1)
	}
	p, err := s.startProcess(&order{
		Process: name, Store: s.url, Hosts: l.ways.hosts(), TTL: s.ttl, Prefix: s.prefix, Dir: s.dir,
		Guard: filepath.Join(s.dir, "guard"), Seed: fromSeed(s.plan.Seed, name), Goroutines: goroutines,
	})
	if err != nil {
		return err
	}
	l.mu.Lock()
	l.lives = append(l.lives, p)
	l.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, startPatience)
	defer cancel()
	return p.Await(ctx, 0)
}

// startProcess starts a worker and sends it its order.
func (s *stage) startProcess(o *order) (*contend.Process, error) {
	return contend.StartProcess("verify", o.Process, s.plan.Command(), o)
}

// current is the worker that lives.
func (l *slot) current() *contend.Process {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.lives[len(l.lives)-1]
}

// processOf is the worker of this name, if it lives.
func (s *stage) processOf(name string) *contend.Process {
	for _, slot := range s.slots {
		if p := slot.current(); p.Name == name {
			return p
		}
	}
	return nil
}

// note records what is done to a process, for as long as during takes.
func (s *stage) note(process string, state report.State, during func()) {
	begin := history.Now()
	during()
	took := history.Interval{Begin: begin, End: history.Now()}
	s.spans = append(s.spans, span{process, report.Span{State: state, Interval: took}})
}

// settle waits until every goroutine of every worker has got a lock that it asked for from now on, or the bound has
// passed: what the workers have recorded tells then.
func (s *stage) settle(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, s.bound()+time.Second)
	defer cancel()
	const round = 1
	for _, slot := range s.slots {
		if err := slot.current().Begin(round); err != nil {
			return err
		}
	}
	for _, slot := range s.slots {
		if err := slot.current().Await(ctx, round); err != nil {
			if ctx.Err() == nil {
				return err
			}
			return nil
		}
	}
	s.settled = true
	return nil
}

// stop ends all workers, and returns what they have counted.
func (s *stage) stop() ([]contend.Report, error) {
	tooLate := fmt.Errorf("it takes longer than %v", stopPatience)
	ctx, cancel := context.WithTimeoutCause(context.Background(), stopPatience, tooLate)
	defer cancel()
	var mu sync.Mutex
	var reports []contend.Report
	var failed error
	var stopping sync.WaitGroup
	for _, slot := range s.slots {
		stopping.Go(func() {
			p := slot.current()
			p.Stop()
			r, err := p.End(ctx)
			mu.Lock()
			defer mu.Unlock()
			failed = errors.Join(failed, err)
			if r != nil {
				reports = append(reports, *r)
			}
		})
	}
	stopping.Wait()
	return reports, failed
}

// Close ends what is left, and removes the files.
func (s *stage) Close() error {
	var failed error
	for _, slot := range s.slots {
		if len(slot.lives) > 0 {
			failed = errors.Join(failed, slot.current().Kill())
		}
		failed = errors.Join(failed, slot.ways.Close())
	}
	if s.guard != nil {
		failed = errors.Join(failed, s.guard.Close())
	}
	if s.locks != nil {
		failed = errors.Join(failed, s.locks.Close())
	}
	if s.dir != "" {
		failed = errors.Join(failed, os.RemoveAll(s.dir))
	}
	return failed
}
