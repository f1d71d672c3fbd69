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

// unlockWithin bounds how long a lock is given back. What the store does not confirm by then runs out with its ttl.
const unlockWithin = 5 * time.Second

// A run is one command that is run under locks: what was asked for, and what was got.
type run struct {
	*runFlags
	app     *app
	names   []string // as given
	command []string

	session *session
	notice  notice
	grip    grip // nil until the locks are held
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

	waiting := listen(ctx, signals)
	err = r.take(waiting)
	sig := waiting.stop()
	if r.session != nil {
		defer r.session.Close() //nolint:errcheck // what could not be given back was said, or runs out
	}
	switch {
	case sig != nil && r.grip != nil:
		r.giveBack()
		fallthrough
	case sig != nil:
		return r.app.endedBy(sig)
	case err != nil:
		return r.refused(err)
	}
	j := &job{
		path: path, argv: r.command, env: r.environment(), files: files,
		watch:   &watch{grip: r.grip, notice: r.notice, store: r.session.abilities.Store},
		signals: signals, names: r.names, app: r.app,
	}
	code, err := j.run()
	r.giveBack() // also what was lost: until then the store keeps it for the grace
	switch {
	case j.watch.why != nil:
		return &exitError{code: exitLost}
	case err != nil:
		return cannotStart(r.command[0], err)
	case code != 0:
		return &exitError{code: code}
	}
	return nil
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
	if r.ttl != nil {
		at.TTL = *r.ttl // where time is a session, it is the session's
	}
	if r.session, err = openAt(ctx, at); err != nil {
		return err
	}
	ttl := ttlOf(r.ttl, at, &r.session.abilities)
	if r.notice, err = newNotice(r.killAfter, r.runFlags.grace, ttl, r.session.abilities.Grace); err != nil {
		return err
	}
	if err := r.refuseNested(ctx); err != nil {
		return err
	}
	began := time.Now()
	if r.grip, err = r.grab(ctx); err != nil {
		return err
	}
	if r.verbose {
		for i, token := range r.grip.Tokens() {
			r.app.say("took %s after %v, token %s", called(unique(r.names)[i]), time.Since(began).Round(time.Millisecond), token)
		}
	}
	return nil
}

// grab takes the locks, or waits for them as long as it may.
func (r *run) grab(ctx context.Context) (grip, error) {
	var all []wanted
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
		r.app.say("waiting for %s: %v", called(locked.Name), locked)
	}
	if r.wait != nil {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, *r.wait)
		defer cancel()
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
	options := []holdfast.Option{holdfast.Label(label)}
	if r.ttl != nil && r.session.abilities.SessionTTL == 0 {
		options = append(options, holdfast.TTL(*r.ttl))
	}
	if r.notice.grace > 0 {
		options = append(options, holdfast.Grace(r.notice.grace))
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
