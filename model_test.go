package holdfast_test

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
)

// modelSeed runs one program alone. The order of events at one instant of fake time is still random, so a failure
// may need several runs: -count=100.
var modelSeed = flag.Int64("model.seed", -1, "run TestModel with this seed alone")

const (
	modelTTL   = 3 * time.Second
	modelUnits = 3         // of the semaphore
	modelBound = time.Hour // no program lasts that long unless a wait never ends
)

// TestModel runs random programs, each from a seed, and checks all that their leases say against the model.
func TestModel(t *testing.T) {
	if *modelSeed >= 0 {
		seen := map[string]int{}
		runModel(t, uint64(*modelSeed), seen)
		t.Log(seen)
		return
	}
	seeds := uint64(modelSeeds)
	if testing.Short() {
		seeds = modelSeedsShort
	}
	var mu sync.Mutex
	total := map[string]int{}
	t.Run("seeds", func(t *testing.T) {
		var next atomic.Uint64
		for range runtime.GOMAXPROCS(0) {
			t.Run("", func(t *testing.T) {
				t.Parallel()
				seen := map[string]int{}
				for seed := next.Add(1) - 1; seed < seeds && !t.Failed(); seed = next.Add(1) - 1 {
					runModel(t, seed, seen)
				}
				mu.Lock()
				defer mu.Unlock()
				for what, n := range seen {
					total[what] += n
				}
			})
		}
	})
	// A program in which nothing happens proves nothing.
	for _, what := range []string{
		"handed over", "re-entered", "downgraded", "lost", "given up", "ErrLocked", "ErrReentered", "ErrUpgrade",
		"faulty link",
		"erase", "break", "restart without data", "Lock", "TryLock", "RLock", "TryRLock", "Do", "RDo", "Campaign",
		"Acquire", "TryAcquire",
	} {
		if total[what] < int(seeds)/100 {
			t.Errorf("%q happened %d times in %d programs", what, total[what], seeds)
		}
	}
	t.Log(total)
}

// runModel runs the program of one seed.
func runModel(t *testing.T, seed uint64, seen map[string]int) {
	bubble(t, func(t *testing.T, r *rig) {
		b := newModelBook()
		newProgram(r, b, seed).run()
		b.audit()
		if len(b.wrong) > 0 {
			t.Errorf("seed %d (-model.seed=%[1]d): %s\n%s", seed, strings.Join(b.wrong, "\n"), b.story())
		}
		for what, n := range b.seen {
			seen[what] += n
		}
	})
}

// A program is a server, two clients, and actors that take locks at random. It makes no deadlock by itself: names are
// taken in one order.
type program struct {
	*rig
	b       *modelBook
	random  *rand.Rand
	clients []*holdfast.Client
	links   []weakLink
	names   []string // the last one may be a semaphore
	sem     int      // which one, or -1
	plain   bool     // mostly short exclusive locks of one name, so that much is handed over
}

func newProgram(r *rig, b *modelBook, seed uint64) *program {
	p := &program{rig: r, b: b, random: rand.New(rand.NewPCG(seed, 1)), sem: -1} //nolint:gosec // a seed is the point
	linked := p.random.IntN(4) == 0
	p.plain = p.random.IntN(3) == 0
	for range 2 {
		options := []holdfast.Option{holdfast.WithTTL(modelTTL)}
		if p.random.IntN(4) == 0 {
			options = append(options, holdfast.WithHandOver(0, 0))
		}
		if !linked || p.random.IntN(2) == 0 {
			p.clients = append(p.clients, r.client(options...))
			continue
		}
		c, link := r.linked(options...)
		p.clients, p.links = append(p.clients, c), append(p.links, link)
	}
	p.names = []string{"a", "b", "c"}[:2+p.random.IntN(2)]
	if p.random.IntN(2) == 0 {
		p.sem = p.random.IntN(len(p.names))
	}
	if len(p.links) > 0 {
		b.seen["faulty link"]++
	}
	return p
}

func (p *program) fork() *rand.Rand {
	return rand.New(rand.NewPCG(p.random.Uint64(), 2)) //nolint:gosec // as above
}

func (p *program) run() {
	var actors, faults sync.WaitGroup
	for i := range 3 + p.random.IntN(4) {
		a := &actor{program: p, who: fmt.Sprint("actor", i), random: p.fork()}
		actors.Go(a.run)
	}
	if p.random.IntN(2) == 0 {
		random := p.fork()
		faults.Go(func() { p.misfortune(random) })
	}
	for _, link := range p.links {
		random := p.fork()
		faults.Go(func() { p.disturb(link, random) })
	}
	finished := make(chan struct{})
	go func() { actors.Wait(); faults.Wait(); close(finished) }()
	select {
	case <-finished:
	case <-time.After(modelBound):
		p.b.complain("model", "a wait never ends")
		p.showLines()
		p.b.mu.Lock()
		p.b.stopped = true
		p.b.mu.Unlock()
		for _, c := range p.clients {
			c.Close()
		}
		<-finished
		return
	}
	p.nothingIsLeft()
}

// showLines logs all queues.
func (p *program) showLines() {
	raw := p.server.Connect()
	defer raw.Close()
	for _, name := range p.names {
		queue, err := raw.Queue(p.Context(), name)
		p.b.note("model", "the queue of %q: %d places, %v", name, len(queue.Entries), err)
		for _, place := range queue.Entries {
			p.b.note("model", "  ticket %d, turn %d, %v, since %v", place.Ticket, place.Turn, place.State,
				place.Since.Sub(p.b.began))
		}
	}
}

// nothingIsLeft checks that the server has forgotten the program, and that all is free.
func (p *program) nothingIsLeft() {
	time.Sleep(2 * modelTTL)
	c := p.client()
	for i, name := range p.names {
		if n := p.server.Residue(name); n != 0 {
			p.b.complain("model", "the server still holds %d things for %q", n, name)
		}
		var err error
		if i == p.sem {
			_, err = c.Semaphore(name, modelUnits).TryAcquire(p.Context(), modelUnits)
		} else {
			_, err = c.Mutex(name).TryLock(p.Context())
		}
		if err != nil {
			p.b.complain("model", "%q is not free: %v", name, err)
		}
	}
}

// misfortune takes claims away, held and waiting ones.
func (p *program) misfortune(random *rand.Rand) {
	raw := p.server.Connect()
	defer raw.Close()
	for range 1 + random.IntN(4) {
		time.Sleep(time.Millisecond + time.Duration(random.Int64N(int64([]time.Duration{20 * time.Millisecond,
			modelTTL}[random.IntN(2)]))))
		if random.IntN(6) == 0 {
			p.b.forget(func() { p.server.Restart(false) })
			continue
		}
		name := p.names[random.IntN(len(p.names))]
		queue, err := raw.Queue(p.Context(), name)
		if err != nil || len(queue.Entries) == 0 {
			continue
		}
		victim := queue.Entries[random.IntN(len(queue.Entries))]
		if random.IntN(2) == 0 {
			p.b.rob(victim.Ticket, "faults", "erase", func() { p.server.Erase(name, victim.ID) })
		} else {
			p.b.rob(victim.Ticket, "faults", "break",
				func() { raw.Break(p.Context(), name, victim.Ticket) }) //nolint:errcheck // it may be gone
		}
	}
}

// disturb makes a link fail for a while, and leaves it healed.
func (p *program) disturb(link weakLink, random *rand.Rand) {
	for range 1 + random.IntN(4) {
		time.Sleep(time.Duration(random.Int64N(int64(modelTTL))))
		pause := time.Duration(random.Int64N(int64([]time.Duration{100 * time.Millisecond,
			modelTTL * 3 / 2}[random.IntN(2)])))
		trouble := troubles[random.IntN(len(troubles))]
		p.b.note("link", "%s for %v", trouble.what, pause)
		end := trouble.begin(link)
		time.Sleep(pause)
		end()
		p.b.note("link", "healed")
	}
}
