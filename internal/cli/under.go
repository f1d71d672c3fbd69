package cli

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/store"
)

// unlockWithin bounds a release. A lock whose release is not confirmed by then expires with its ttl.
const unlockWithin = 5 * time.Second

const (
	// noWaitWithin bounds --no-wait: it does not wait for the lock, but for the store's response.
	noWaitWithin = 3 * time.Second

	// minOpen is how long the store may take to open, however short --wait is, and minTry how long a try may take
	// afterwards. On a busy machine the lock must not be reported as taken when it is free.
	minOpen = time.Second
	minTry  = 100 * time.Millisecond

	// closeWithin bounds how long a run whose time is over takes to leave the queue.
	closeWithin = 500 * time.Millisecond
)

// A run is one command that is run under locks.
type run struct {
	*runFlags
	app     *app
	names   []string // as given
	command []string

	election bool // of the one name: see elect.go
	single   bool // one lease, which is detached for spell: see acquire.go
	spell    time.Duration
	lost     bool // the lock, while the command ran
	session  *session
	notice   notice
	grip     grip // nil until the locks are held
}

// do acquires the locks, runs the command and releases the locks. What can be checked in advance is checked before it
// waits for the locks.
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
	err = r.acquire(waiting)
	sig := stop()
	defer r.close(sig)
	if sig != nil {
		if r.grip != nil {
			r.release()
		}
		return r.app.endedBy(sig)
	}
	if err != nil {
		return r.refused(err)
	}
	held := &watch{grip: r.grip, notice: r.notice, store: r.session.abilities.Store}
	j := &job{run: r, path: path, env: r.environment(), files: files, watch: held, signals: signals}
	code, err := r.execute(ctx, j)
	r.release() // also if it was lost: the store may keep it for the grace
	switch {
	case held.why != nil:
		r.lost = true
		return &exitError{code: exitLost}
	case err != nil:
		return err
	case code != 0:
		return &exitError{code: code}
	}
	return nil
}

// rememberOnce is the default of --keep-for, if the store allows that much.
const rememberOnce = 24 * time.Hour

// execute runs the command. With --once it does so only if the command was not run for the same key before.
func (r *run) execute(ctx context.Context, j *job) (code int, err error) {
	start := func(context.Context) error {
		if code, err = j.execute(); err != nil {
			return cannotStart(r.command[0], err)
		}
		return nil
	}
	if r.once == nil {
		err = start(ctx) // it sets code
		return code, err
	}
	keepFor := min(rememberOnce, r.session.abilities.MaxTTL)
	if r.keepFor != nil {
		keepFor = *r.keepFor
	}
	ctx, cancel := context.WithTimeout(ctx, requestWithin) // it bounds the store, not the command
	defer cancel()
	called, err := r.session.Once(ctx, r.names[0], *r.once, keepFor, start)
	if !called && err == nil && r.verbose {
		r.app.logf("%s has been run for %s before", store.Shown(r.names[0]), store.Shown(*r.once))
	}
	return code, err
}

// close closes the store, if it was opened. sig is the signal that ended the wait for the locks, if any. A release that
// failed was reported, or the lock expires. A run whose time is over waits at most closeWithin for a store that does
// not respond.
func (r *run) close(sig os.Signal) {
	if r.session == nil {
		return
	}
	var over <-chan time.Time
	if r.grip == nil && sig == nil && r.within() > 0 {
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

// within returns how long it may take until the locks are acquired, or 0 if that has no bound.
func (r *run) within() time.Duration {
	switch {
	case r.noWait:
		return noWaitWithin
	case r.wait != nil:
		return *r.wait
	}
	return 0
}

// bounded returns a context for a step of something that may take within since began. The step may take least in any
// case.
func bounded(ctx context.Context, began time.Time, within, least time.Duration) (context.Context, context.CancelFunc) {
	if within == 0 {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, max(within-time.Since(began), least))
}

// acquire opens the store and acquires the locks.
func (r *run) acquire(ctx context.Context) error {
	at, err := r.app.locate()
	if err != nil {
		return err
	}
	if at.Scheme == "memory" && !r.app.inProcess {
		return usageError(
			"the store memory: is private to this process, so its locks exclude no other; give another --store")
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
	opening, cancel := bounded(ctx, began, r.within(), minOpen)
	defer cancel()
	if r.session, err = openAt(opening, at); err != nil {
		return err
	}
	ctx, cancel = bounded(ctx, began, r.within(), minTry)
	defer cancel()
	ttl := ttlOf(r.ttl, at, &r.session.abilities)
	if r.notice, err = newNotice(r.killAfter, r.runFlags.grace, ttl, r.session.abilities.Grace); err != nil {
		return err
	}
	if err := r.refuseNested(ctx); err != nil {
		return err
	}
	began = time.Now()
	if r.grip, err = r.lock(ctx); err != nil {
		if errors.Is(err, context.DeadlineExceeded) && exitCode(err) == exitStore {
			return exitWith(exitStore, "no response within %v: %w", r.within(), err)
		}
		return err
	}
	r.app.journal.opened()
	if r.verbose {
		for i, token := range r.grip.Tokens() {
			r.app.logf("acquired %s after %v, token %s", store.Shown(unique(r.names)[i]),
				time.Since(began).Round(time.Millisecond), token)
		}
	}
	return nil
}

// lock acquires the locks, and waits for them unless --no-wait is given.
func (r *run) lock(ctx context.Context) (grip, error) {
	switch {
	case r.election:
		return r.campaign(ctx)
	case r.single:
		return r.lockOne(ctx)
	}
	var all []holdfast.Part
	for _, name := range unique(r.names) {
		all = append(all, r.want(r.session.Client, name, r.options()))
	}
	if r.noWait || r.verbose {
		g, err := gripOf(holdfast.TryLockAll(ctx, all...))
		locked, ok := errors.AsType[*holdfast.LockedError](err)
		if r.noWait || !ok {
			return g, err
		}
		r.app.logf("waiting for %s: %v", store.Shown(locked.Name), locked)
	}
	return gripOf(holdfast.LockAll(ctx, all...))
}

// options returns the flags as options of the library.
func (r *run) options() []holdfast.Option {
	label := r.label
	if label == "" && len(r.command) > 0 {
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
	if r.atLeast != nil && *r.atLeast > 0 {
		options = append(options, holdfast.WithAtLeast(*r.atLeast))
	}
	if r.newSlots {
		options = append(options, holdfast.WithLimitChange())
	}
	return options
}

// refused returns the error of locks that were not acquired. If they are taken, it has the code of --busy-exit. A job
// that is skipped prints nothing: cron sends all output by mail.
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

// release unlocks. A failure does not change the exit code of the command.
func (r *run) release() {
	ctx, cancel := context.WithTimeout(context.Background(), unlockWithin)
	defer cancel()
	began := time.Now()
	err := r.grip.Unlock(ctx)
	switch {
	case errors.Is(err, holdfast.ErrLost): // it was reported, or happened after the command had ended
	case err != nil:
		r.app.logf("not released, it expires by itself: %v", err)
	case r.verbose:
		r.app.logf("released in %v", time.Since(began).Round(time.Millisecond))
	}
}

// unique returns names without repetitions: a lock that is named twice is acquired once.
func unique(names []string) []string {
	var all []string
	for _, n := range names {
		if !slices.Contains(all, n) {
			all = append(all, n)
		}
	}
	return all
}

// tokensOf returns the token of each name, in the order of names.
func tokensOf(g grip, names []string) []holdfast.Token {
	once, tokens := unique(names), g.Tokens()
	all := make([]holdfast.Token, len(names))
	for i, n := range names {
		all[i] = tokens[slices.Index(once, n)]
	}
	return all
}
