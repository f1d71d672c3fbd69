package contend

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/child"
	"github.com/holdfast-go/holdfast/lab/check"
	"github.com/holdfast-go/holdfast/lab/history"
)

// relayEnv makes a program a runner of a relay.
const relayEnv = "HOLDFAST_LAB_RELAY"

const (
	relayName     = "relay"
	relayPatience = 30 * time.Second // for one pass, on a machine that is busy with other tests
)

// A Race defines a relay.
type Race struct {
	URL    string        // of the store
	TTL    time.Duration // of its leases, and how long they are detached; the URL sets the ttl of a session
	Passes int           // how often the lease is attached and detached
	Faults int           // how many runners are killed, and how many paused for longer than the ttl
}

// Relay is a test of a store in which claims can be detached: two processes pass one lease back and forth. Now and then
// a process is killed, or paused for longer than the ttl, at any moment; and now and then both get the lease at once.
// Never do two of them believe that they hold, of two that attach one lease at most one succeeds, and tokens rise
// except along the passes of one lease.
func Relay(t *testing.T, r Race) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), relayPatience*time.Duration(4+r.Faults))
	defer cancel()
	g := &relay{Race: r, dir: t.TempDir(), passed: map[holdfast.Token]int{}}
	err := errors.Join(g.run(ctx), g.close())
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range g.findings(t) {
		t.Error(f)
	}
	t.Logf("%d passes; the longest chain of one token has %d; killed %d, paused %d, both at once %d, lost %d",
		g.passes, g.longest, g.killed, g.paused, g.shared, g.lost)
	if g.killed < r.Faults || g.paused < r.Faults || g.shared == 0 {
		t.Error("not all faults were done: this run shows nothing")
	}
}

// A relay is one run of Relay.
type relay struct {
	Race
	dir     string
	runners [2]*runner
	started int
	baton   string                 // the detached lease; empty: it has to be acquired anew
	passed  map[holdfast.Token]int // how often each token was passed on
	longest int                    // the greatest of these numbers

	passes, killed, paused, shared, lost int
}

// run passes the lease on until that was done often enough. The faults are spread over the passes.
func (g *relay) run(ctx context.Context) error {
	for i := range g.runners {
		if err := g.start(i); err != nil {
			return err
		}
	}
	every := max(g.Passes/(2*g.Faults+1), 1)
	for turn := 0; g.passes < g.Passes || g.killed < g.Faults || g.paused < g.Faults; turn++ {
		at := g.runners[turn%2]
		var err error
		switch {
		case turn%every != every-1:
			err = g.pass(ctx, at)
		case turn/every%2 == 0 && g.killed < g.Faults:
			err = g.kill(at, turn%2)
		case g.paused < g.Faults:
			err = g.pause(ctx, at, g.runners[(turn+1)%2])
		default:
			err = g.race(ctx)
		}
		if err != nil {
			return fmt.Errorf("pass %d: %w", g.passes, err)
		}
		if turn%50 == 25 {
			if err := g.race(ctx); err != nil {
				return fmt.Errorf("pass %d, both at once: %w", g.passes, err)
			}
		}
	}
	return nil
}

// start starts a runner.
func (g *relay) start(i int) (err error) {
	g.started++
	g.runners[i], err = startRunner(&leg{
		Process: fmt.Sprintf("runner %d", g.started), URL: g.URL, Dir: g.dir, TTL: g.TTL,
	})
	return err
}

// pass lets one runner attach the lease, or acquire it, and detach it again.
func (g *relay) pass(ctx context.Context, at *runner) error {
	if err := at.send(g.baton); err != nil {
		return err
	}
	return g.take(ctx, at)
}

// take takes what a runner says about its pass.
func (g *relay) take(ctx context.Context, at *runner) error {
	said, err := at.hear(ctx)
	if err != nil {
		return err
	}
	if g.baton = ""; said.Baton == "" {
		g.lost++
		return said.fault()
	}
	return g.passOn(said.Baton)
}

// passOn counts a pass, and keeps the detached lease for the next.
func (g *relay) passOn(baton string) error {
	x, err := holdfast.ParseDetached(baton)
	if err != nil {
		return err
	}
	g.baton = baton
	g.passed[x.Token()]++
	g.longest = max(g.longest, g.passed[x.Token()])
	g.passes++
	return nil
}

// kill kills a runner in the middle of its pass. What it held or had detached expires.
func (g *relay) kill(at *runner, i int) error {
	if err := at.send(g.baton); err != nil {
		return err
	}
	time.Sleep(rand.N(2 * time.Millisecond)) // anywhere in its pass
	if err := at.process.Kill(); err != nil {
		return err
	}
	g.killed++
	g.baton = ""
	return g.start(i)
}

// pause pauses a runner in the middle of its pass until the other has acquired the lease anew. When it is resumed it
// must not believe.
func (g *relay) pause(ctx context.Context, at, other *runner) error {
	if err := at.send(g.baton); err != nil {
		return err
	}
	time.Sleep(rand.N(2 * time.Millisecond)) // as above
	if err := child.Pause(at.process.Cmd.Process); err != nil {
		return err
	}
	g.paused++
	g.baton = ""
	err := g.pass(ctx, other)
	if err := errors.Join(err, child.Resume(at.process.Cmd.Process)); err != nil {
		return err
	}
	said, err := at.hear(ctx) // its lease may have been detached before the pause; then it expires, or expired
	if err != nil {
		return err
	}
	return said.fault()
}

// race sends the lease to both runners at once. One of them attaches it, at most.
func (g *relay) race(ctx context.Context) error {
	if g.baton == "" {
		return nil
	}
	contested := g.baton
	var won []string
	for _, r := range g.runners {
		if err := r.send(contested); err != nil {
			return err
		}
	}
	for _, r := range g.runners {
		said, err := r.hear(ctx)
		if err := errors.Join(err, said.fault()); err != nil {
			return err
		}
		if said.Baton != "" {
			won = append(won, said.Baton)
		}
	}
	g.shared++
	if len(won) > 1 {
		return errors.New("both runners attached one lease")
	}
	g.baton = ""
	if len(won) == 1 {
		return g.passOn(won[0])
	}
	return nil
}

// findings returns what the histories of the runners show.
func (g *relay) findings(t *testing.T) (all []string) {
	t.Helper()
	holds, err := history.ReadDir(g.dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range check.Overlap(holds) {
		all = append(all, f.String())
	}
	for i := 1; i < len(holds); i++ { // in order of their beginning
		if holds[i].Token < holds[i-1].Token {
			all = append(all, fmt.Sprintf("a later hold has a smaller token: %v, then %v", holds[i-1], holds[i]))
		}
	}
	if len(holds) < g.passes {
		all = append(all, fmt.Sprintf("%d holds were recorded in %d passes", len(holds), g.passes))
	}
	return all
}

// close ends the runners.
func (g *relay) close() (err error) {
	for _, r := range g.runners {
		if r != nil {
			err = errors.Join(err, r.process.Kill())
		}
	}
	return err
}

// A leg is the first line that a runner reads.
type leg struct {
	Process, URL, Dir string
	TTL               time.Duration
}

// An arrival is what a runner says about a pass: the lease that it has detached, or why it has none.
type arrival struct {
	Baton string
	Lost  bool   // it was lost, or attached by another, or the store did not respond in time
	Error string // any other reason
}

// fault returns an error that a runner must not have.
func (a arrival) fault() error {
	if a.Error != "" {
		return errors.New(a.Error)
	}
	return nil
}

// A runner is a process of a relay, as the relay sees it.
type runner struct {
	process *child.Process
	in      *json.Encoder
	heard   chan arrival // closed when it has ended
}

// startRunner starts this program again, as a runner.
func startRunner(l *leg) (*runner, error) {
	cmd, err := self(relayEnv)
	if err != nil {
		return nil, err
	}
	cmd.Env = append(cmd.Env, "GORACE=atexit_sleep_ms=0 "+os.Getenv("GORACE"))
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	r := &runner{in: json.NewEncoder(in), heard: make(chan arrival, 1)}
	go func() {
		defer close(r.heard)
		for says := json.NewDecoder(out); ; {
			var a arrival
			if says.Decode(&a) != nil {
				return
			}
			r.heard <- a
		}
	}()
	if r.process, err = child.Start(cmd); err != nil {
		return nil, err
	}
	return r, r.in.Encode(l)
}

// send gives a runner the lease. An empty text makes it acquire one.
func (r *runner) send(baton string) error { return r.in.Encode(baton) }

// hear returns what a runner says about its pass.
func (r *runner) hear(ctx context.Context) (arrival, error) {
	ctx, cancel := context.WithTimeout(ctx, relayPatience)
	defer cancel()
	select {
	case a, ok := <-r.heard:
		if !ok {
			return a, errors.New("a runner ended by itself")
		}
		return a, nil
	case <-ctx.Done():
		return arrival{}, fmt.Errorf("a runner says nothing: %w", ctx.Err())
	}
}

// runLegs is the program of a runner, until in ends.
func runLegs(in io.Reader, out io.Writer) error {
	EndAfter("relay", lifetime)
	orders := json.NewDecoder(in)
	var l leg
	if err := orders.Decode(&l); err != nil {
		return err
	}
	ctx := context.Background()
	locks, err := holdfast.Open(ctx, l.URL)
	if err != nil {
		return err
	}
	recorder, err := history.Create(l.Dir, l.Process)
	if err != nil {
		return err
	}
	for says := json.NewEncoder(out); ; {
		var baton string
		if orders.Decode(&baton) != nil {
			return errors.Join(locks.Close(), recorder.Close())
		}
		var a arrival
		if a.Baton, err = l.run(ctx, locks, recorder, baton); err != nil {
			_, fault := errors.AsType[*holdfast.Fault](err) // on a machine that is too busy to respond
			if a.Lost = fault || errors.Is(err, holdfast.ErrLost); !a.Lost {
				a.Error = err.Error()
			}
		}
		if err := says.Encode(a); err != nil {
			return err
		}
	}
}

// run attaches the lease or acquires one, holds it for a moment, and detaches it.
func (l *leg) run(
	ctx context.Context, locks *holdfast.Client, recorder *history.Recorder, baton string,
) (string, error) {
	var lease *holdfast.Lease
	x, err := holdfast.ParseDetached(baton)
	switch {
	case baton == "":
		lease, err = locks.Mutex(relayName).Lock(ctx)
	case err == nil:
		lease, err = locks.Attach(ctx, x)
	}
	if err != nil {
		return "", err
	}
	hold := history.Hold{Kind: history.Exclusive}
	hold.Resource, hold.Token = relayName, lease.Token()
	belief, ok := recorder.Begin(hold, func() bool { return lease.Err() == nil })
	if ok {
		for end := time.Now().Add(rand.N(time.Millisecond)); time.Now().Before(end) && belief.Check(); {
			time.Sleep(100 * time.Microsecond)
		}
		belief.End()
	}
	next, err := lease.Detach(ctx, l.TTL)
	return next.String(), err
}
