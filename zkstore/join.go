package zkstore

import (
	"context"
	"errors"
	"fmt"
	"path"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/frame"
)

// A joining is one call of Join.
type joining struct {
	*store.Claim
	position
	store *Store
	began time.Time
	line  string // the path of the line
	begin string // what the name of the node begins with
	value string
}

// joinTries is how often a Join is tried while the session's epoch changes, or the session itself, or the line's node
// is removed by the servers.
const joinTries = 20

var (
	errAgain   = errors.New("its session or its line changes too fast")
	errTooMany = errors.New("ZooKeeper's transaction numbers are at the end of their range")
)

// Join implements store.Store.
func (s *Store) Join(ctx context.Context, c store.Claim) (store.Standing, error) {
	call, err := s.frame.Begin(ctx, c.Name, c.TTL)
	if err != nil {
		return store.Standing{}, err
	}
	defer call.End()
	if store.FloorTooHigh(c.Floor, time.Now()) { // ZooKeeper has no clock to ask
		return store.Standing{}, store.ErrFloor
	}
	j := &joining{
		Claim: &c, position: position{id: c.ID, name: c.Name}, store: s, began: call.Sent, line: s.layout.path(c.Name),
	}
	if j.begin, err = s.layout.node(c.ID, c.Ask); err != nil {
		return store.Standing{}, err
	}
	end, err := s.beginJoin(call.Context, c.ID)
	if err != nil {
		return store.Standing{}, call.Outcome(err)
	}
	defer end()
	for range joinTries {
		standing, err := j.attempt(call.Context)
		if !errors.Is(err, errAgain) {
			if err != nil || standing.State == store.Gone {
				err = j.giveUp(&call, call.Outcome(err))
			}
			return standing, err
		}
	}
	return store.Standing{}, j.giveUp(&call, s.frame.Fault(ctx, errAgain))
}

// beginJoin waits until no other Join of the claim is under way: each would make a node.
func (s *Store) beginJoin(ctx context.Context, id store.ID) (end func(), err error) {
	for {
		s.mu.Lock()
		other := s.joining[id]
		if other == nil {
			done := make(chan struct{})
			s.joining[id] = done
			s.mu.Unlock()
			return func() {
				s.mu.Lock()
				delete(s.joining, id)
				s.mu.Unlock()
				close(done)
			}, nil
		}
		s.mu.Unlock()
		select {
		case <-other:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// giveUp is for a claim that was not joined. If something that was sent may still be done, it is made void first; where
// that fails, the error is not final.
func (j *joining) giveUp(call *frame.Call, err error) error {
	switch {
	case !j.unsure:
	case err != nil && !store.Final(err):
		j.store.deleteLater(j.position)
	default:
		if failed := j.store.delete(call.Context, j.position); failed != nil {
			return notFinal(call.Outcome(failed))
		}
	}
	return err
}

// notFinal is the error about a claim that may still stand. Whatever it is, it may go away.
func notFinal(err error) error {
	if f, ok := errors.AsType[*store.Fault](err); ok && f.Final {
		return &store.Fault{Store: f.Store, Err: f.Err}
	}
	return err
}

// attempt joins once. The error is errAgain if the session, or what was known of it, has changed meanwhile.
func (j *joining) attempt(ctx context.Context) (store.Standing, error) {
	s := j.store
	ses, err := s.sessions.Current(ctx)
	if err == nil {
		err = s.deleted(ctx, j.ID)
	}
	if err != nil {
		return store.Standing{}, err
	}
	if j.session != ses { // under another session, nothing of what was sent before can land
		j.session, j.unsure = ses, false
	}
	s.mu.Lock()
	known := s.known(j.Claim)
	s.mu.Unlock()
	if known != nil {
		return j.again(ctx, known)
	}
	if j.Try {
		if standing, refused, err := j.refused(ctx); refused || err != nil {
			return standing, err
		}
	}
	r := (&claim{position: j.position, joined: j.began}).record(j.Claim)
	j.value = r.encode()
	results, alive, err := ses.Handle.multi(ctx, j.create()...)
	if err != nil {
		return store.Standing{}, j.failed(ctx, err)
	}
	ses.Extend(alive)
	return j.made(ctx, results[createOp].String, results[numberOp].Stat)
}

// The operations that make a claim's node, all in one step: they demand the session's epoch, make the node, and write
// another for the sake of the result. That says the number of the transaction, which is the new node's czxid and the
// claim's ticket, and how many nodes the line has if it is the line's node that was written.
const (
	epochOp = iota
	createOp
	numberOp
)

func (j *joining) create() []any {
	c, acl := j.session.Handle, j.store.set.acl()
	return []any{
		epochOp:  &zk.CheckVersionRequest{Path: c.path, Version: c.epoch.Load()},
		createOp: &zk.CreateRequest{Path: j.line + "/" + j.begin, Data: []byte(j.value), Acl: acl, Flags: zk.FlagEphemeral | zk.FlagSequence},
		numberOp: &zk.SetDataRequest{Path: j.store.layout.number(j.line), Version: -1},
	}
}

// failed finds out why no node was made.
func (j *joining) failed(ctx context.Context, err error) error {
	s, c := j.store, j.session.Handle
	op, refused := errors.AsType[*failedOp](err)
	switch {
	case isOver(err), refused && op.index == epochOp && errors.Is(err, zk.ErrNoNode):
		s.lose(j.session)
		return errAgain
	case !refused:
		j.unsure = true
		return err
	case op.index == epochOp && errors.Is(err, zk.ErrBadVersion):
		return j.readEpoch(ctx)
	case op.index == createOp && errors.Is(err, zk.ErrNoNode):
		return s.makeLine(ctx, c, j.line)
	}
	return pathError(j.line, err)
}

// readEpoch reads the session's epoch. It returns errAgain.
func (j *joining) readEpoch(ctx context.Context) error {
	c := j.session.Handle
	stat, err := call(ctx, c, func(conn *zk.Conn) (*zk.Stat, error) {
		_, stat, err := conn.Exists(c.path)
		return stat, err
	})
	if err == nil {
		c.raiseEpoch(stat.Version)
		err = errAgain
	}
	return err
}

// makeLine makes the node of a line, which the servers remove when it has had children and has none. It returns
// errAgain.
func (s *Store) makeLine(ctx context.Context, c *client, line string) error {
	err := request(ctx, c, func(conn *zk.Conn) error {
		_, err := conn.CreateContainer(line, nil, zk.FlagContainer, s.set.acl())
		return err
	})
	switch {
	case errors.Is(err, zk.ErrNoNode): // a path of several components
		if err := s.makeLine(ctx, c, path.Dir(line)); !errors.Is(err, errAgain) {
			return err
		}
		return s.makeLine(ctx, c, line)
	case err == nil || errors.Is(err, zk.ErrNodeExists):
		return errAgain
	}
	return pathError(line, err)
}

// made finds out where the claim stands whose node was just made.
func (j *joining) made(ctx context.Context, node string, number *zk.Stat) (store.Standing, error) {
	s := j.store
	c := &claim{position: j.position, joined: j.began, ask: j.Ask, written: j.value, state: store.Held}
	c.node, c.ticket = node, uint64(number.Mzxid) //nolint:gosec // positive
	ahead := 0
	var err error
	var w watch
	switch {
	case c.ticket > store.MaxTicket:
		err = final(errTooMany)
	case c.ticket <= j.Floor: // the servers were restored from a backup
		err = fmt.Errorf("%w: it is at %d, and %d was seen", store.ErrFloor, c.ticket, j.Floor)
	case number.NumChildren != 1: // others are there, or that is not known
		ahead, w, err = j.lookAhead(ctx, c)
	}
	if err != nil || j.Try && c.state != store.Held {
		if failed := s.delete(ctx, c.position); failed != nil {
			j.position, j.unsure = c.position, true // it may still stand: that is no final error
			return store.Standing{}, failed
		}
		return store.Standing{Ahead: ahead}, err
	}
	if err := s.sessions.Freshen(ctx, j.session); err != nil {
		j.position, j.unsure = c.position, true
		return store.Standing{}, err
	}
	s.mu.Lock()
	if !s.sessions.Is(j.session) {
		s.mu.Unlock()
		return store.Standing{}, errAgain // it is gone with its session
	}
	c.waitsFor, c.lastOne = w, ahead == 1 && c.ask.Units == c.ask.Limit && !s.layout.foreign()
	s.admit(c)
	waits := c.state == store.Waiting
	s.mu.Unlock()
	if waits {
		j.await(ctx, c, w)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return standingIn(j.session, c.state, c.ticket, ahead), nil
}

// await watches what c waits for. If that has left meanwhile, or can't be watched, c is looked at soon.
func (j *joining) await(ctx context.Context, c *claim, w watch) {
	s := j.store
	there, err := s.watch(ctx, c, w)
	if err == nil && there && c.ask.Units == c.ask.Limit {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.doubt(c)
}

// lookAhead reads what is ahead of the claim, and notes its state.
func (j *joining) lookAhead(ctx context.Context, c *claim) (ahead int, w watch, err error) {
	entries, err := j.store.readLine(ctx, c.session.Handle, c.name)
	if err != nil {
		return 0, w, err
	}
	if ahead = indexOf(entries, c.child()); ahead < 0 {
		return 0, w, errAgain // it was deleted by others
	}
	if err := mismatch(entries[:ahead], j.Ask); err != nil {
		return ahead, w, err
	}
	c.state, w = j.store.evaluate(c.name, entries[:ahead], j.Ask)
	return ahead, w, nil
}

// refused reports whether a Try is of no use, by what the servers know now. A claim that is refused has never been in
// the way of others.
func (j *joining) refused(ctx context.Context) (standing store.Standing, refused bool, err error) {
	s := j.store
	entries, err := s.readNow(ctx, j.session.Handle, j.Name)
	if err == nil {
		err = mismatch(entries, j.Ask)
	}
	if err != nil {
		if isOver(err) {
			s.lose(j.session)
			err = errAgain
		}
		return standing, false, err
	}
	if len(entries) == 0 {
		return standing, false, nil
	}
	standing.Ahead = len(entries)
	state, _ := s.evaluate(j.Name, entries, j.Ask)
	return standing, state != store.Held, nil
}

// again reports where a claim stands that has joined before.
func (j *joining) again(ctx context.Context, c *claim) (standing store.Standing, err error) {
	s := j.store
	if err := s.confirm(ctx, c.session, []*claim{c}, []store.Claim{*j.Claim}); err != nil {
		return standing, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case !s.sessions.Is(c.session):
		return standing, errAgain
	case s.claims[c.id] != c:
		return standing, nil
	}
	return standingIn(c.session, c.state, c.ticket, -1), c.unknown
}
