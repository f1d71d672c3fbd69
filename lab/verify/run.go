package verify

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/lab/contend"
	"github.com/holdfast-go/holdfast/lab/history"
	"github.com/holdfast-go/holdfast/lab/report"
)

// Run carries out a plan and returns its report. When ctx is done, it stops, and returns the report so far with the
// error of ctx. Any other error means that the plan could not be carried out. When Run returns, none of its processes,
// files and claims is left.
func Run(ctx context.Context, p *Plan) (run *report.Run, err error) {
	if err := p.Check(); err != nil {
		return nil, err
	}
	if p.Tell == nil {
		p.Tell = func(Event) {}
	}
	url, more := p.Store, []fault(nil)
	if p.Servers != "" {
		p.Tell(Event{Text: "starting servers: " + p.Servers})
		own, err := startSite(ctx, p.Servers, shortTTL)
		if err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, own.stop()) }()
		url, more = own.url, own.faults
	}
	s, err := openStage(ctx, p, url, more)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	return s.play(ctx)
}

// play causes the faults, waits until everything has recovered, ends the workers and checks the history.
func (s *stage) play(ctx context.Context) (*report.Run, error) {
	chosen, err := s.plan.choose(s.faults)
	if err != nil {
		return nil, err
	}
	strikes := schedule(s.plan.Seed, s.plan.Time, s.ttl, s.plan.Workers, chosen)
	s.introduce(chosen, strikes)
	started := time.Now()
	s.began = history.Now()
	failed := s.strikeAll(ctx, strikes, chosen)
	if failed == nil {
		s.mended = history.Now()
		s.tell("everything is mended; every worker must get a lock again")
		failed = s.settle(ctx)
	}
	interrupted := context.Cause(ctx)
	if interrupted != nil {
		s.mended = 0 // the workers had no time to continue
	}
	reports, err := s.stop()
	if failed = errors.Join(failed, err); failed != nil && interrupted == nil {
		return nil, failed
	}
	s.tell("the workers have ended; looking for what they left behind")
	looking, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.takeover+slack)
	defer cancel()
	lines, err := s.leftBehind(looking)
	if err != nil && interrupted == nil {
		return nil, err
	}
	recorded, err := history.LoadDir(s.dir)
	if err != nil {
		return nil, err
	}
	s.tell("judging what was recorded")
	run := s.newRun(started)
	s.judge(run, recorded, (&contend.Outcome{Reports: reports}).Total(), lines)
	return run, interrupted
}

// introduce reports what is going to happen.
func (s *stage) introduce(chosen []fault, strikes []Strike) {
	names := make([]string, len(chosen))
	for i, f := range chosen {
		names[i] = f.name
	}
	s.plan.Tell(Event{Text: fmt.Sprintf("%s: %d workers for %v, ttl %v, seed %d",
		s.can.Store, s.plan.Workers, s.plan.Time, s.ttl, s.plan.Seed)})
	s.plan.Tell(Event{Text: fmt.Sprintf("faults planned: %d, of these kinds: %s",
		len(strikes), strings.Join(names, ", "))})
	for _, f := range chosen {
		if f.beyond != "" {
			s.plan.Tell(Event{Text: fmt.Sprintf("beyond the store's guarantees: %s (%s)", f.name, f.beyond)})
		}
	}
	for _, out := range s.leftOut {
		s.plan.Tell(Event{Text: "left out: " + out})
	}
}

func (s *stage) tell(format string, args ...any) {
	s.plan.Tell(Event{At: history.Now().Sub(s.began), Text: fmt.Sprintf(format, args...)})
}

// strikeAll causes the faults of the schedule, each at its time. Faults that have not begun when the run's time is over
// are omitted: a busy machine may be late. It lasts for the whole time of the run.
func (s *stage) strikeAll(ctx context.Context, strikes []Strike, chosen []fault) error {
	for _, strike := range strikes {
		if err := s.until(ctx, strike.At); err != nil {
			return nil //nolint:nilerr // the caller checks ctx
		}
		if history.Now().Sub(s.began) > s.plan.Time {
			return nil
		}
		f := chosen[slices.IndexFunc(chosen, func(f fault) bool { return f.name == strike.Fault })]
		s.tell("%s: %s", f.name, f.about)
		begin := history.Now()
		target, proof, err := f.strike(ctx, s, strike)
		// A fault that was cut short counts too: findings are classified by it.
		s.struck = append(s.struck, struck{f, report.Fault{
			Name: f.name, Target: target, Proof: proof, Interval: history.Interval{Begin: begin, End: history.Now()},
		}})
		if ctx.Err() != nil {
			return nil //nolint:nilerr // likewise
		}
		if err != nil {
			return fmt.Errorf("holdfast: verify: the fault %s: %w", f.name, err)
		}
	}
	_ = s.until(ctx, s.plan.Time) // the caller checks ctx
	return nil
}

// until waits for an instant of the run.
func (s *stage) until(ctx context.Context, at time.Duration) error {
	if left := at - history.Now().Sub(s.began); left > 0 {
		return sleep(ctx, left)
	}
	return ctx.Err()
}

// leftBehind returns the queues of the run's names once they are empty, or as they are when ctx is done. It then
// removes the remaining claims.
func (s *stage) leftBehind(ctx context.Context) ([]holdfast.Queue, error) {
	var lines []holdfast.Queue
	for {
		read, err := s.lines(ctx)
		if err == nil || ctx.Err() == nil { // if ctx ended during a read, the previous result is kept
			lines = read
		}
		switch empty := !slices.ContainsFunc(lines, func(l holdfast.Queue) bool { return len(l.Entries) > 0 }); {
		case err == nil && empty:
			return lines, nil
		case sleep(ctx, 100*time.Millisecond) == nil:
		case err != nil && lines == nil:
			return nil, err
		default:
			return lines, s.sweep(context.WithoutCancel(ctx), lines)
		}
	}
}

// sweep breaks all claims in these queues.
func (s *stage) sweep(ctx context.Context, lines []holdfast.Queue) error {
	ctx, cancel := context.WithTimeout(ctx, slack)
	defer cancel()
	for _, line := range lines {
		for _, place := range line.Entries {
			if err := s.locks.Break(ctx, line.Name, place.Token); err != nil && !errors.Is(err, holdfast.ErrNotHeld) {
				return err
			}
		}
	}
	return nil
}

// lines returns the queues of all names that the workers use, and of all others with the run's prefix.
func (s *stage) lines(ctx context.Context) (lines []holdfast.Queue, err error) {
	names := s.names()
	for name, err := range s.locks.Names(ctx, s.prefix) {
		if errors.Is(err, holdfast.ErrUnsupported) {
			break // the store cannot list names
		}
		if err != nil {
			return nil, err
		}
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	for _, name := range names {
		line, err := s.locks.Inspect(ctx, name)
		if err != nil {
			return nil, err
		}
		lines = append(lines, line)
	}
	return lines, nil
}

// names returns the names that the workers use.
func (s *stage) names() []string {
	names := []string{s.prefix + fencedRegister, s.prefix + unfencedRegister}
	for i := range mutexes {
		names = append(names, s.prefix+fmt.Sprint("mutex ", i))
	}
	if s.can.Shared {
		names = append(names, s.prefix+shelf)
		if !s.can.ReadersOnly {
			names = append(names, s.prefix+pool)
		}
	}
	return names
}
