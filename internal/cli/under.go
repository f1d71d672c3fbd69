package cli

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/store"
)

// unlockWithin bounds how long a lock is given back. What the store does not confirm by then runs out with its ttl.
const unlockWithin = 5 * time.Second

const (
	// noWaitWithin bounds --no-wait: it does not wait for the lock, but the store must answer.
	noWaitWithin = 3 * time.Second

	// leastOpen is how long the store may take to open, however short --wait is, and leastTry how long the lock is
	// then tried for. A machine that is busy is no reason to say that a lock is taken.
	leastOpen = time.Second
	leastTry  = 100 * time.Millisecond

	// closeWithin bounds how long a run whose time is over takes to leave the line.
	closeWithin = 500 * time.Millisecond
)

// A run is one command that is run under locks: what was asked for, and what was got.
type run struct {
	*runFlags
	app     *app
	names   []string // as given
	command []string

	election bool // of the one name: see elect.go
	lost     bool // the lock, while the command ran
	session  *session
	notice   notice
	grip     grip // nil until the locks are held
}

// do takes the locks, runs the command and gives the locks back. What can be known to fail fails before anything is
// waited for.
func (r *run) do(ctx context.Context) error {
	path, err := lookUp(r.command[0])
	if err != nil {
		return err
	}
	files, err := r.app.files()
	if err != nil {
		return err
	}
	signals := make(chan os.Signal, 64)
	notifyUnlessIgnored(signals, endingSignals)
	defer signal.Stop(signals)

	waiting, stop := listen(ctx, signals)
	err = r.take(waiting)
	sig := stop()
	if r.session != nil {
		defer r.close(r.grip == nil && sig == nil && r.within() > 0)
	}
	if sig != nil {
		if r.grip != nil {
			r.giveBack()
		}
		if sig == syscall.SIGINT {
			r.app.last = dieOfInterrupt
		}
		return exitWith(exitSignal(sig), "ended by a signal while waiting: %v", sig)
	}
	if err != nil {
		return r.refused(err)
	}
	held := &watch{grip: r.grip, notice: r.notice, store: r.session.abilities.Store}
	j := &job{run: r, path: path, env: r.environment(), files: files, watch: held, signals: signals}
	code, err := j.execute()
	r.giveBack() // also what was lost: until then the store keeps it for the grace
	switch {
	case held.why != nil:
		r.lost = true
		return &exitError{code: exitLost}
	case err != nil:
		return cannotStart(r.command[0], err)
	case code != 0:
		return &exitError{code: code}
	}
	return nil
}

// close closes the store. What could not be released was said, or runs out. A run whose time is over does not wait
// long for a store that does not answer.
func (r *run) close(late bool) {
	var over <-chan time.Time
	if late {
		over = time.After(closeWithin)
	}
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		r.session.Close() //nolint:errcheck // see above
	}()
	select {
	case <-closed:
	case <-over:
	}
}

// within is how long all may take until the locks are had, or 0 if that has no bound.
func (r *run) within() time.Duration {
	switch {
	case r.noWait:
		return noWaitWithin
	case r.wait != nil:
		return *r.wait
	}
	return 0
}

// bounded bounds a step of what may take so long since began, and gives it least in any case.
func bounded(ctx context.Context, began time.Time, within, least time.Duration) (context.Context, context.CancelFunc) {
	if within == 0 {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, max(within-time.Since(began), least))
}

// take opens the store and takes the locks.
func (r *run) take(ctx context.Context) error {
	at, err := r.app.locate()
	if err != nil {
		return err
	}
	if at.Scheme == "memory" && !r.app.inProcess {
		return usageError("the store memory: is this process alone, and a lock in it keeps nobody out; give another --store")
	}
	if err := makeStateFolder(at); err != nil {
		return err
	}
	if r.verbose {
		r.app.journal.opened()
	}
	if r.ttl != nil {
		at.TTL = *r.ttl // where time is a session, it is the session's
	}
	began := time.Now()
	opening, cancel := bounded(ctx, began, r.within(), leastOpen)
	defer cancel()
	if r.session, err = openAt(opening, at); err != nil {
		return err
	}
	ctx, cancel = bounded(ctx, began, r.within(), leastTry)
	defer cancel()
	ttl := ttlOf(r.ttl, at, &r.session.abilities)
	if r.notice, err = newNotice(r.killAfter, r.runFlags.grace, ttl, r.session.abilities.Grace); err != nil {
		return err
	}
	if err := r.refuseNested(ctx); err != nil {
		return err
	}
	began = time.Now()
	if r.grip, err = r.grab(ctx); err != nil {
		if errors.Is(err, context.DeadlineExceeded) && exitCode(err) == exitStore {
			return exitWith(exitStore, "no answer within %v: %w", r.within(), err)
		}
		return err
	}
	r.app.journal.opened()
	if r.verbose {
		for i, token := range r.grip.Tokens() {
			r.app.say("took %s after %v, token %s", store.Shown(unique(r.names)[i]), time.Since(began).Round(time.Millisecond), token)
		}
	}
	return nil
}

// grab takes the locks, or waits for them as long as it may.
func (r *run) grab(ctx context.Context) (grip, error) {
	if r.election {
		return r.campaign(ctx)
	}
	var all []holdfast.Part
	for _, name := range unique(r.names) {
		all = append(all, r.want(r.session.Client, name, r.options()))
	}
	if r.noWait {
		return tryAll(ctx, all)
	}
	if r.verbose {
		g, err := tryAll(ctx, all)
		locked, ok := errors.AsType[*holdfast.LockedError](err)
		if !ok {
			return g, err
		}
		r.app.say("waiting for %s: %v", store.Shown(locked.Name), locked)
	}
	return takeAll(ctx, all)
}

// options are what the flags mean to the library.
func (r *run) options() []holdfast.Option {
	label := r.label
	if label == "" {
		label = strings.ToValidUTF8(filepath.Base(r.command[0]), "?")
		label = label[:min(len(label), store.MaxName)]
	}
	options := []holdfast.Option{holdfast.WithLabel(label)}
	if r.ttl != nil && r.session.abilities.SessionTTL == 0 {
		options = append(options, holdfast.WithTTL(*r.ttl))
	}
	if r.notice.grace > 0 {
		options = append(options, holdfast.WithGrace(r.notice.grace))
	}
	return options
}

// refused is the error of locks that were not had. If they are taken it has the code that was asked for. A job that is
// skipped is silent: cron sends mail about every word.
func (r *run) refused(err error) error {
	switch {
	case exitCode(err) != exitBusy:
		return err
	case r.skip && !r.verbose:
		r.app.silent = true
		return &exitError{code: r.busyExit}
	}
	return &exitError{r.busyExit, err}
}

// giveBack unlocks. That it failed changes nothing of what the command did.
func (r *run) giveBack() {
	ctx, cancel := context.WithTimeout(context.Background(), unlockWithin)
	defer cancel()
	began := time.Now()
	err := r.grip.Unlock(ctx)
	switch {
	case errors.Is(err, holdfast.ErrLost): // that was said, or came when the command had ended
	case err != nil:
		r.app.say("not given back, it runs out by itself: %v", err)
	case r.verbose:
		r.app.say("given back in %v", time.Since(began).Round(time.Millisecond))
	}
}

// unique is names without repetitions: a lock that is named twice is taken once.
func unique(names []string) []string {
	var all []string
	for _, n := range names {
		if !slices.Contains(all, n) {
			all = append(all, n)
		}
	}
	return all
}

// tokensOf are the tokens for names as they were given.
func tokensOf(g grip, names []string) []holdfast.Token {
	once, tokens := unique(names), g.Tokens()
	all := make([]holdfast.Token, len(names))
	for i, n := range names {
		all[i] = tokens[slices.Index(once, n)]
	}
	return all
}
