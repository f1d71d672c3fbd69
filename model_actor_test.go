package holdfast_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/store"
)

// An actor is one goroutine of a program.
type actor struct {
	*program
	who    string
	random *rand.Rand
	bag    []*holdfast.Lease // what is still to be unlocked
	has    [3]int            // how many leases of each name it has
}

// top is the index of the highest name that the actor has. It waits only for higher ones, or there would be
// deadlocks by right.
func (a *actor) top() int {
	for i := len(a.has) - 1; i >= 0; i-- {
		if a.has[i] > 0 {
			return i
		}
	}
	return -1
}

// An outerLease is the lease under whose context an actor goes on.
type outerLease struct {
	client *holdfast.Client
	at     int // the index of its name
	shared bool
	count  int // how many leases are around
}

func (a *actor) chance(n int) bool { return a.random.IntN(n) == 0 }

// span is a time up to one of these.
func (a *actor) span(most ...time.Duration) time.Duration {
	return time.Duration(a.random.Int64N(int64(most[a.random.IntN(len(most))])))
}

func (a *actor) run() {
	steps := 3 + a.random.IntN(5)
	if a.plain {
		steps *= 3
	}
	for range steps {
		if a.chance(3) {
			time.Sleep(a.span(time.Millisecond, 50*time.Millisecond))
		}
		a.step(context.Background(), nil)
		a.random.Shuffle(len(a.bag), func(i, j int) { a.bag[i], a.bag[j] = a.bag[j], a.bag[i] })
		for _, l := range a.bag {
			a.unlock(l)
		}
		a.bag = nil
	}
}

// An attempt is one attempt to get a lock.
type attempt struct {
	op        string
	at        int // the index of the name
	same      bool
	reentrant bool
	bounded   bool
	client    *holdfast.Client
	options   []holdfast.Option
	fixed     time.Duration
	off       bool // no hand-over
	around    *outerLease
}

// step takes a lock, perhaps others under it, and gives it back or puts it into the bag.
func (a *actor) step(ctx context.Context, around *outerLease) {
	y, ok := a.choose(around)
	if !ok {
		return
	}
	wait, cancel := a.bound(ctx, y)
	defer cancel()
	a.b.note(a.who, "%s %q of client %d, reentrant %v, bounded %v, fixed %v", y.op, a.names[y.at],
		slices.Index(a.clients, y.client), y.reentrant, y.bounded, y.fixed)
	a.b.count(y.op)
	switch y.op {
	case "Do", "RDo":
		a.do(wait, y)
		return
	}
	l, err := a.take(wait, y)
	if err != nil {
		a.refused(y, err)
		return
	}
	a.granted(y, l.Token(), l.Err)
	l = a.use(l, y)
	if a.chance(3) && around != nil {
		a.bag = append(a.bag, l)
	} else {
		a.unlock(l)
	}
}

// choose says what to try next.
func (a *actor) choose(around *outerLease) (*attempt, bool) {
	y := &attempt{around: around, client: a.clients[a.random.IntN(len(a.clients))]}
	if a.plain && around == nil && a.sem != 0 && !a.chance(5) {
		y.op, y.client = "Lock", a.clients[a.random.IntN(4)/3]
		return y, true
	}
	from := a.top() + 1
	y.same = around != nil && around.at == a.top() && a.chance(3)
	switch {
	case y.same: // of another client it would wait for itself
		y.at, y.client = around.at, around.client
	case from == len(a.names):
		return nil, false
	default:
		y.at = from + a.random.IntN(len(a.names)-from)
	}
	if y.at == a.sem {
		y.op = []string{"Acquire", "Acquire", "TryAcquire"}[a.random.IntN(3)]
	} else {
		y.op = []string{"Lock", "Lock", "Lock", "Lock", "Do", "TryLock", "RLock", "TryRLock", "RDo",
			"Campaign"}[a.random.IntN(10)]
	}
	// Shared leases of one owner may wait for each other across a third one, which is a deadlock of the program's.
	y.reentrant = a.chance(3) || y.same && (around.shared || y.at == a.sem)
	if y.reentrant {
		y.options = append(y.options, holdfast.WithReentrance())
	}
	if a.chance(8) {
		y.fixed = a.span(5*time.Millisecond, 50*time.Millisecond, modelTTL) + 1
		y.options = append(y.options, holdfast.WithFixedTTL(y.fixed))
	}
	if a.chance(10) {
		y.options = append(y.options, holdfast.WithTTL(modelTTL/3))
	}
	if a.chance(5) {
		y.options = append(y.options, holdfast.WithoutDeadlockCheck())
	}
	if a.chance(6) {
		y.options = append(y.options, holdfast.WithOwner(a.who))
	}
	if a.chance(6) {
		y.off = true
		y.options = append(y.options, holdfast.WithHandOver(0, 0))
	}
	return y, true
}

// bound makes the context of a wait.
func (a *actor) bound(ctx context.Context, y *attempt) (context.Context, context.CancelFunc) {
	switch a.random.IntN(5) {
	case 0:
		y.bounded = true
		return context.WithTimeout(ctx, a.span(10*time.Millisecond, modelTTL))
	case 1:
		y.bounded = true
		ctx, cancel := context.WithCancel(ctx)
		time.AfterFunc(a.span(10*time.Millisecond, modelTTL), cancel)
		return ctx, cancel
	}
	return context.WithCancel(ctx)
}

func (a *actor) take(ctx context.Context, y *attempt) (*holdfast.Lease, error) {
	m := y.client.RWMutex(a.names[y.at], y.options...)
	switch y.op {
	case "Lock":
		return m.Lock(ctx)
	case "TryLock":
		return m.TryLock(ctx)
	case "RLock":
		return m.RLock(ctx)
	case "TryRLock":
		return m.TryRLock(ctx)
	case "Campaign":
		return y.client.Election(a.names[y.at], y.options...).Campaign(ctx)
	}
	s := y.client.Semaphore(a.names[y.at], modelUnits, y.options...)
	if y.op == "TryAcquire" {
		return s.TryAcquire(ctx, y.units())
	}
	return s.Acquire(ctx, y.units())
}

// units returns how many units a try requests. It is always the same for one name and client, so that re-entrance
// mostly fits.
func (y *attempt) units() int {
	switch y.op {
	case "RLock", "TryRLock", "RDo":
		return 1
	case "Acquire":
		return 2
	case "TryAcquire":
		return 1
	}
	return store.MaxReaders
}

func (y *attempt) limit() int {
	if y.op == "Acquire" || y.op == "TryAcquire" {
		return modelUnits
	}
	return store.MaxReaders
}

// granted reports a grant to the model.
func (a *actor) granted(y *attempt, token holdfast.Token, err func() error) {
	h := &modelLease{who: a.who, name: a.names[y.at], token: token, units: y.units(), limit: y.limit(), err: err}
	// If its outer lease was lost just now, it is not a re-entrance.
	h.again = y.same && y.reentrant
	a.has[y.at]++
	h.alone = y.off || y.fixed > 0 || y.op != "Lock" && y.op != "Do"
	if h.again {
		h.alone = false
		a.b.count("re-entered")
	}
	a.b.grant(h)
}

// use holds a lease for a while, perhaps takes others under it, and perhaps downgrades it.
func (a *actor) use(l *holdfast.Lease, y *attempt) *holdfast.Lease {
	a.linger()
	if !l.Token().Shared() && a.chance(6) {
		ctx, cancel := context.WithTimeout(context.Background(), a.span(time.Second))
		defer cancel()
		shared, err := l.Downgrade(ctx)
		switch {
		case err == nil:
			a.b.count("downgraded")
			a.b.grant(&modelLease{
				who: a.who, name: l.Name(), token: shared.Token(), units: 1, limit: y.limit(), err: shared.Err,
			})
			if l.Err() == nil {
				a.b.complain(a.who, "%q was downgraded, and the old lease lives", l.Name())
			}
			l = shared
			a.linger()
		case !errors.Is(err, holdfast.ErrLost) && !errors.Is(err, holdfast.ErrDowngrade):
			a.b.complain(a.who, "Downgrade: %v", err)
		}
	}
	a.deeper(l.Context(), y, l.Token().Shared())
	return l
}

// deeper goes on under a lease.
func (a *actor) deeper(ctx context.Context, y *attempt, shared bool) {
	in := &outerLease{client: y.client, at: y.at, shared: shared, count: 1}
	if y.around != nil {
		in.count += y.around.count
	}
	for in.count < 3 && a.chance(2) && (!a.plain || a.chance(4)) {
		a.step(ctx, in)
	}
}

// linger lets time pass, mostly little.
func (a *actor) linger() {
	if a.plain && !a.chance(5) {
		time.Sleep(a.span(100*time.Microsecond, 2*time.Millisecond))
		return
	}
	switch a.random.IntN(12) {
	case 0:
		time.Sleep(a.span(modelTTL, 3*modelTTL))
	case 1, 2, 3:
		time.Sleep(a.span(50 * time.Millisecond))
	case 4, 5, 6, 7:
		time.Sleep(a.span(3 * time.Millisecond))
	}
}

// do is a step by Do or RDo.
func (a *actor) do(ctx context.Context, y *attempt) {
	m := y.client.RWMutex(a.names[y.at], y.options...)
	run, ran := m.Do, false
	if y.op == "RDo" {
		run = m.RDo
	}
	var lost error
	err := run(ctx, func(ctx context.Context) error {
		ran = true
		token, _ := holdfast.TokenFrom(ctx)
		a.granted(y, token, func() error {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			return nil
		})
		a.linger()
		a.deeper(ctx, y, token.Shared())
		a.has[y.at]--
		lost = context.Cause(ctx)
		return nil
	})
	switch {
	case !ran:
		if err == nil {
			a.b.complain(a.who, "%s did nothing and said nothing", y.op)
			return
		}
		a.refused(y, err)
	case errors.Is(lost, holdfast.ErrLost) && errors.Is(ctx.Err(), nil) && !errors.Is(err, holdfast.ErrLost):
		a.b.complain(a.who, "%s of %q lost its lease and returned %v", y.op, a.names[y.at], err)
	case err != nil && !errors.Is(err, holdfast.ErrLost):
		a.b.complain(a.who, "%s of %q returned %v", y.op, a.names[y.at], err)
	default:
		a.b.note(a.who, "%s of %q returned %v", y.op, a.names[y.at], err)
	}
}

// refused checks why a try acquired nothing.
func (a *actor) refused(y *attempt, err error) {
	a.b.note(a.who, "%s %q got nothing: %v", y.op, a.names[y.at], err)
	var fault *store.Fault
	may := false
	for _, reason := range []struct {
		what string
		is   bool
		ok   bool
	}{
		{"given up", errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded), y.bounded ||
			y.around != nil},
		{"ErrLocked", errors.Is(err, holdfast.ErrLocked), y.bounded || y.around != nil ||
			strings.HasPrefix(y.op, "Try")},
		{"ErrReentered", errors.Is(err, holdfast.ErrReentered), y.same && !y.reentrant},
		{"ErrUpgrade", errors.Is(err, holdfast.ErrUpgrade), y.same},
		{"fault", errors.As(err, &fault), len(a.links) > 0},
		{"lost while it was granted", errors.Is(err, holdfast.ErrLost), len(a.links) > 0},
	} {
		if reason.is && reason.ok {
			may = true
			a.b.count(reason.what)
		}
	}
	if !may {
		a.b.complain(a.who, "%s of %q failed with %v", y.op, a.names[y.at], err)
	}
}

// unlock gives a lease back, in one of several ways, and checks that it is over then.
func (a *actor) unlock(l *holdfast.Lease) {
	ctx := context.Background()
	if a.chance(10) {
		done, cancel := context.WithCancel(ctx)
		cancel()
		ctx = done
	}
	a.b.note(a.who, "unlocks %q: %v", l.Name(), l.Token().Ticket())
	err := l.Unlock(ctx)
	a.has[slices.Index(a.names, l.Name())]--
	a.b.note(a.who, "unlocked %q: %v", l.Name(), err)
	var fault *store.Fault
	switch {
	case err == nil:
	case errors.Is(err, holdfast.ErrLost):
		a.b.count("lost")
	case errors.Is(err, context.Canceled) && ctx.Err() != nil:
	case errors.As(err, &fault) && len(a.links) > 0:
	default:
		a.b.complain(a.who, "Unlock of %q: %v", l.Name(), err)
	}
	if l.Err() == nil || l.Context().Err() == nil {
		a.b.complain(a.who, "%q was unlocked, and its lease lives", l.Name())
	}
	if a.chance(10) {
		if err := l.Unlock(ctx); !errors.Is(err, holdfast.ErrNotHeld) && !errors.Is(err, holdfast.ErrLost) {
			a.b.complain(a.who, "a second Unlock of %q: %v", l.Name(), err)
		}
	}
}
