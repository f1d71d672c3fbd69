package holdfast

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/internal/agenda"
	"github.com/holdfast-go/holdfast/store"
)

// A Detached is a lease that no process holds: the store keeps its lock for a time that [Lease.Detach] has set, and
// [Client.Attach] makes it a lease again, in any process that uses the same store. It is a value that can be copied,
// written as text, and sent to another process.
//
// It contains no secret of the store. But it is all that a process with access to the store needs to attach, extend or
// release the lease.
type Detached struct {
	store  string // the store's identity
	name   string
	demand store.Demand
	id     store.ID
	ticket uint64
	turn   uint8
}

// Name returns the name of the lock.
func (x Detached) Name() string { return x.name }

// Token returns the fencing token of the lease. It is the same before and after the lease is attached.
func (x Detached) Token() Token { return newToken(x.ticket, !x.demand.Exclusive(), x.turn) }

// detachedPrefix begins the text of a Detached, with the version of its format.
const detachedPrefix = "hf1."

// maxDetachedText bounds the text of a Detached: a name and an identity of their greatest lengths fit, also if JSON
// escapes all of them.
const maxDetachedText = 16 << 10

// detachedText is the content of the text of a Detached.
type detachedText struct {
	Store string   `json:"store"`
	Name  string   `json:"name"`
	ID    store.ID `json:"id"`
	Token Token    `json:"token"`
	Kind  Kind     `json:"kind"`
	Units int32    `json:"units"`
	Limit int32    `json:"limit"`
}

// String returns the text of the lease, for [ParseDetached]. It has no spaces and needs no quotes in a shell. The text
// of a zero Detached is empty.
func (x Detached) String() string {
	if x.ticket == 0 {
		return ""
	}
	content, err := json.Marshal(detachedText{
		Store: x.store, Name: x.name, ID: x.id, Token: x.Token(),
		Kind: x.demand.Kind, Units: x.demand.Units, Limit: x.demand.Limit,
	})
	if err != nil {
		panic(err) // it has plain fields only
	}
	return detachedPrefix + base64.RawURLEncoding.EncodeToString(content)
}

// MarshalText returns the text of String.
func (x Detached) MarshalText() ([]byte, error) { return []byte(x.String()), nil }

// UnmarshalText parses a text as ParseDetached does. An empty text is that of a zero Detached.
func (x *Detached) UnmarshalText(text []byte) error {
	if len(text) == 0 {
		*x = Detached{}
		return nil
	}
	parsed, err := ParseDetached(string(text))
	if err == nil {
		*x = parsed
	}
	return err
}

// ParseDetached parses the text of a detached lease, as String writes it. The error wraps ErrBadDetached.
func ParseDetached(s string) (Detached, error) {
	bad := func(why string) (Detached, error) { return Detached{}, fmt.Errorf("%w: %s", ErrBadDetached, why) }
	encoded, ok := strings.CutPrefix(s, detachedPrefix)
	switch {
	case len(s) > maxDetachedText:
		return bad("it is too long")
	case !ok && strings.HasPrefix(s, "hf"):
		return bad("it is of another version of holdfast")
	case !ok:
		return bad("it does not begin with " + detachedPrefix)
	}
	content, err := base64.RawURLEncoding.DecodeString(encoded)
	if err != nil {
		return bad("it is damaged")
	}
	var t detachedText
	if json.Unmarshal(content, &t) != nil || t.Token.Ticket() == 0 || store.CheckName(t.Name) != nil ||
		t.Store == "" || t.ID == store.Everyone || t.Units < 1 || t.Units > t.Limit || t.Limit > store.MaxReaders ||
		t.Kind != KindLock && t.Kind != KindSemaphore || t.Kind == KindLock && t.Limit != store.MaxReaders {
		return bad("it is damaged")
	}
	x := Detached{
		store: t.Store, name: t.Name, demand: store.Demand{Kind: t.Kind, Units: t.Units, Limit: t.Limit},
		id: t.ID, ticket: t.Token.Ticket(), turn: uint8(t.Token) & (sharedBit - 1),
	}
	if x.Token() != t.Token {
		return bad("it is damaged")
	}
	return x, nil
}

var (
	errDetached     = fmt.Errorf("%w: it was detached", ErrNotHeld)
	errDetachedLost = fmt.Errorf("%w: it expired, was released, or was attached by another process", ErrLost)
)

// Detach ends the lease in this process, without releasing its lock: the store keeps the lock for d, after which it is
// free unless another process has attached or extended the lease by then. The lease ends before the store is called,
// whatever that returns, so that at no time two processes hold it. Its token stays valid, and is that of the attached
// lease: a fence cannot tell the two processes apart, so call Detach when the writes of this one have ended.
//
// Nothing renews a detached lease, and nothing tells when it has expired. WithGrace and WithAtLeast do not apply to it.
//
// The error is an *Error. It wraps ErrBadTTL if d is not possible in this store, ErrUnsupported if the store cannot
// detach leases, ErrDetach if the lease was re-entered or pinned, or ErrNilContext; then the lease is held as before.
// It wraps the error of Err if the lease is not held, ErrLost if the store no longer has it, and a *Fault or the error
// of ctx if the store did not confirm the call. Then the lease is over, and its lock is released in the background. If
// that cannot be done, because the process ends or the store is not reachable, the lock may stay taken for d.
func (l *Lease) Detach(ctx context.Context, d time.Duration) (Detached, error) {
	x, err := l.detach(ctx, d)
	return x, l.client.failed("detach", l.claim.Name, err)
}

// detach is Detach, with errors that are not wrapped in an *Error yet.
func (l *Lease) detach(ctx context.Context, d time.Duration) (Detached, error) {
	c, cl := l.client, l.claim
	if ctx == nil {
		return Detached{}, ErrNilContext
	}
	if err := c.checkSpell(d); err != nil {
		return Detached{}, err
	}
	x, err := l.beginDetach()
	if err != nil {
		return Detached{}, err
	}
	defer c.calls.Done()
	status, err := c.detacher().Detach(ctx, cl.Claim, x.id, d)
	switch {
	case err == nil && status.State == store.Held:
		return x, nil
	case err == nil: // if the store lost the grant, the claim may be waiting there
		err = errWithdrawn
	case store.Final(err):
		return Detached{}, err
	}
	c.abandon(cl, x.id, d)
	return Detached{}, err
}

// beginDetach ends the lease and forgets its claim, which Detach is then called for. The caller has to call
// calls.Done.
func (l *Lease) beginDetach() (Detached, error) {
	c, cl := l.client, l.claim
	c.begin()
	defer c.end()
	switch {
	case l.Err() != nil:
		return Detached{}, l.Err()
	case len(cl.more) > 0:
		return Detached{}, fmt.Errorf("%w: it was re-entered, and other leases of it are still held", ErrDetach)
	case cl.pinned:
		return Detached{}, fmt.Errorf("%w: it was pinned for a guard of the store", ErrDetach)
	case c.isClosed(): // Close is about to end it
		return Detached{}, ErrClosed
	case !l.end(&errDetached): // it was unlocked at the same moment
		return Detached{}, l.Err()
	case cl.phase != held:
		return Detached{}, errWithdrawn
	}
	cl.stay = nil
	c.drop(cl)
	c.calls.Add(1)
	return Detached{
		store: c.abilities.Identity, name: cl.Name, demand: cl.Demand,
		id: c.ids.next(), ticket: cl.Ticket, turn: cl.Turn,
	}, nil
}

// abandon leaves a claim that may have been detached for d under the ID as: the outcome of the call is not known.
func (c *Client) abandon(cl *claim, as store.ID, d time.Duration) {
	c.begin()
	defer c.end()
	detached := &claim{Claim: cl.Claim, queue: &localQueue{lock: cl.queue.lock}, pos: agenda.Off}
	detached.ID, detached.Ticket = as, 0
	if c.isClosed() { // Close waits for this, and closes the store then
		c.leaveLate(cl.Claim)
		c.leaveLate(detached.Claim)
		return
	}
	c.withdraw(cl)
	c.withdraw(detached)
	detached.giveUp += int64(d)
}

// Attach makes a detached lease a lease of this client, which renews it from then on. Its token is the same as before.
// Of several processes that attach one lease, at most one succeeds. Options are those of a lock; the ttl, the grace and
// the label are this client's.
//
// The error is an *Error. It wraps ErrLost if the lease has expired, was released, or was attached by another process,
// ErrBadDetached if x is of another store, and otherwise the errors of [Mutex.TryLock]. After a *Fault the lease may be
// detached as before, or may have been attached and is then released, in the background.
func (c *Client) Attach(ctx context.Context, x Detached, options ...Option) (*Lease, error) {
	const op = "attach"
	if err := c.checkDetached(ctx, x); err != nil {
		return nil, c.failed(op, x.name, err)
	}
	k := c.lock(x.name, options)
	return k.acquire(ctx, &request{op: op, demand: x.demand, try: true, alone: true, detached: &x})
}

// attach calls Attach of the store instead of Join.
func (x *Detached) attach(ctx context.Context, c *Client, cl Claim) (store.Status, error) {
	cl.Ticket = x.ticket
	status, err := c.detacher().Attach(ctx, cl, x.id)
	if err == nil && status.State == store.Waiting { // it has held without interruption
		return store.Status{}, &Fault{Store: c.abilities.Store, Err: errors.New("the attached claim is not held")}
	}
	return status, err
}

// Extend makes the lock of a detached lease expire d from now, unless it expires later anyway. It returns until when
// the lock is known to be held, by the clock of this machine: d from now.
//
// The error is an *Error. It wraps ErrLost if the lease has expired, was released or was attached, ErrBadDetached if x
// is of another store, ErrBadTTL if d is not possible, and otherwise the errors of [Client.Attach]. After a *Fault, or
// the error of ctx, the lease may be extended or not, and Extend can be repeated.
func (c *Client) Extend(ctx context.Context, x Detached, d time.Duration) (until time.Time, err error) {
	until, err = c.extend(ctx, x, d)
	return until, c.failed("extend", x.name, err)
}

// extend is Extend, with errors that are not wrapped in an *Error yet.
func (c *Client) extend(ctx context.Context, x Detached, d time.Duration) (time.Time, error) {
	if err := c.checkDetached(ctx, x); err != nil {
		return time.Time{}, err
	}
	if err := c.checkSpell(d); err != nil {
		return time.Time{}, err
	}
	if !c.beginCall() {
		return time.Time{}, ErrClosed
	}
	defer c.calls.Done()
	status, err := c.detacher().Detach(ctx, c.claimOf(x), x.id, d)
	if err == nil && status.State != store.Held {
		err = errDetachedLost
	}
	return status.Until, err
}

// beginCall begins a call of the store that Close waits for, and that ends with calls.Done. It reports false if the
// client is closed.
func (c *Client) beginCall() bool {
	c.begin()
	defer c.end()
	if c.isClosed() {
		return false
	}
	c.calls.Add(1)
	return true
}

// Release releases the lock of a detached lease. The error is an *Error. It wraps ErrLost if the lease was gone before:
// another holder may have worked in the meantime. Its other errors are those of [Client.Extend]. After a *Fault, or the
// error of ctx, the lock may be released or not, or may expire after this client's ttl; a Release that is repeated then
// returns ErrLost also if the first one has released the lock.
func (c *Client) Release(ctx context.Context, x Detached) error {
	// Leave does not tell whether there was anything to remove. So the lease is extended first, by little.
	_, err := c.extend(ctx, x, c.settings.ttl)
	if err == nil && !c.beginCall() {
		err = ErrClosed
	}
	if err == nil {
		defer c.calls.Done()
		err = c.store.Leave(ctx, c.claimOf(x))
	}
	return c.failed("release", x.name, err)
}

// claimOf returns the claim of a detached lease.
func (c *Client) claimOf(x Detached) Claim {
	return Claim{
		ID: x.id, Name: x.name, Demand: x.demand, TTL: c.settings.ttl, Ticket: x.ticket, Turn: x.turn,
		Owner: c.settings.owner,
	}
}

// detacher returns the store as a Detacher, which it is by its Abilities.
func (c *Client) detacher() store.Detacher { return c.store.(store.Detacher) }

// checkDetached returns an error if a detached lease cannot be one of this client's store.
func (c *Client) checkDetached(ctx context.Context, x Detached) error {
	switch {
	case ctx == nil:
		return ErrNilContext
	case c.settings.err != nil:
		return c.settings.err
	case c.isClosed():
		return ErrClosed
	case x.ticket == 0:
		return fmt.Errorf("%w: it is empty", ErrBadDetached)
	case !c.abilities.Detach:
		return c.lacks("detached leases")
	case x.store != c.abilities.Identity:
		return fmt.Errorf("%w: it is of another store, or of another prefix", ErrBadDetached)
	}
	return nil
}

// checkSpell returns an error if a lock cannot stay taken in the store for d without being renewed.
func (c *Client) checkSpell(d time.Duration) error {
	switch a := &c.abilities; {
	case !a.Detach:
		return c.lacks("detached leases")
	case d < a.MinTTL || d > a.MaxTTL:
		return fmt.Errorf("%w: %v: the store allows %v to %v", ErrBadTTL, d, a.MinTTL, a.MaxTTL)
	}
	return nil
}
