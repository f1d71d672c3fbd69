package rediswire

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

// A conn is a connection of the store's own to one server, shared by all callers. Replies come in the order of
// requests.
//
// While calls come one after the other, each writes its request and reads its reply in the caller's goroutine, and no
// other is woken: that is what a call costs least. While several calls are under way, one goroutine reads for all, and
// another writes what has been collected meanwhile. The goroutine that reads has the connection's reading flag:
//
//   - A caller takes it if nothing is under way, and gives it back with its reply. If that takes longer than a tick or
//     two, the reader interrupts it: then it waits with its context, like all others. So a caller returns at most two
//     ticks after its context was cancelled. One whose deadline is nearer than that reads with a deadline, so that all
//     return at their deadlines. (A deadline for each read would cost as much as a tenth of a call. A tick of 5 ms cost
//     as much.)
//   - The reader takes it when requests are under way that no caller reads for, and gives it back when calls come one
//     by one again. It also takes it when nothing was called for a while: so the end of an idle connection is noticed
//     at once, and an idle server is pinged.
//
// There is a read deadline only while the reader reads, for a caller whose own deadline is near, or to interrupt one.
//
// A caller that gives up leaves its request behind. Its reply is dropped when it comes, and nothing else changes: the
// connection goes on for others. It ends if the server stays silent for pingEvery and SilenceWithin while it owes a
// reply.
//
// A caller writes by itself only while few calls are under way, and at most directBytes have not been replied to. So
// little fits into the buffers between client and server: a write in a caller's goroutine does not block.
type conn struct {
	net  *dialled
	lost func(error) // ends the connection; it calls end

	toRead  chan struct{} // holds a token when the reader may have to take over
	toWrite chan struct{} // holds a token when the writer has something to write
	vacant  chan struct{} // holds a token when a caller that waits for room may find some
	dead    chan struct{} // closed when the connection has ended

	writes sync.Mutex // held while bytes are written. It is locked before mu, or else by TryLock only.

	mu       sync.Mutex
	err      error // why it has ended
	under    [roomOnWire]*call
	first, n int    // of under: the calls that are not complete, in order
	bytes    int    // of their requests
	out      []byte // requests that are to be written
	spare    []byte // a buffer that out can have next
	waiting  int    // callers that wait for room
	reading  bool   // a caller or the reader reads
	calm     int    // how many replies in a row were to the only call under way
	calls    uint64 // how many there were
	turns    uint64 // how often a caller has taken the reading flag
	strange  error  // what is wrong with the bytes that were read: no reply can be told from them any more

	in input // for who has the reading flag

	switches atomic.Int64 // how often a call had to wait for another goroutine
}

const (
	directCalls = 2                     // while more are under way, one write for all costs less
	directBytes = 4096                  // what callers may have written by themselves and is not replied to
	tick        = 50 * time.Millisecond // how often the reader checks on callers that read
	watchAfter  = 2                     // after so many ticks without a call the reader watches the connection
	calmEnough  = 2                     // so many replies in a row make a connection calm
	slowServer  = -32                   // calm after a caller was interrupted: the next ones would be too
)

// errSurplus is why a connection ends on which a server has sent more than was requested.
var errSurplus = fmt.Errorf("%w: a reply that was not requested", ErrShape)

// longAgo is a deadline that ends whatever is under way.
var longAgo = time.Unix(1, 0)

// A call is what one caller has sent and waits for.
type call struct {
	want    int // how many replies
	bytes   int // of its request
	replies []Reply
	one     [1]Reply // where replies points to for one
	err     error
	direct  bool          // its caller reads; it gets no token
	over    bool          // it is complete, or the connection has ended
	dropped bool          // its caller has given up
	done    chan struct{} // gets a token when it is over
}

var callPool = sync.Pool{New: func() any { return &call{done: make(chan struct{}, 1)} }}

// newCall returns a call that waits for want replies.
func newCall(want int) *call {
	c := callPool.Get().(*call)
	*c = call{want: want, done: c.done}
	if c.replies = c.one[:0]; want > 1 {
		c.replies = make([]Reply, 0, want)
	}
	return c
}

// newConn makes a connection of one that was dialled, for w. Its goroutines are told to tasks.
func newConn(tasks *sync.WaitGroup, over *dialled, w *Connection) *conn {
	c := &conn{
		net:     over,
		lost:    w.End,
		toRead:  make(chan struct{}, 1),
		toWrite: make(chan struct{}, 1),
		vacant:  make(chan struct{}, 1),
		dead:    make(chan struct{}),
	}
	w.link, w.own = c, c
	tasks.Go(c.read)
	tasks.Go(c.write)
	return c
}

// end ends the connection with an error for all calls that are under way. It does not wait.
func (c *conn) end(why error) {
	c.mu.Lock()
	if c.err == nil {
		c.err = why
		c.out = nil // nothing may follow a request that was written in part
		for c.n > 0 {
			c.pop().finish(why)
		}
		close(c.dead)
	}
	c.mu.Unlock()
	c.net.SetDeadline(longAgo) //nolint:errcheck // who reads or writes is done with it, or learns of it from dead
}

// do implements link.
func (c *conn) do(ctx context.Context, r *request) []Reply {
	own, err := c.exchange(ctx, r)
	if err != nil {
		return Failures(r.count(), err)
	}
	replies := own.replies
	if len(replies) == 1 {
		replies = []Reply{replies[0]}
	}
	own.free()
	return replies
}

// run implements link.
func (c *conn) run(ctx context.Context, r *request) Reply {
	own, err := c.exchange(ctx, r)
	if err != nil {
		return NewFailure(err)
	}
	reply := own.replies[0]
	own.free()
	return reply
}

// exchange sends a request and returns a call with its replies, which the caller frees, or why there are none.
func (c *conn) exchange(ctx context.Context, r *request) (*call, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	own := newCall(r.count())
	c.mu.Lock()
	if c.n == len(c.under) {
		c.awaitRoom(ctx)
	}
	if err := c.cannot(ctx); err != nil {
		c.mu.Unlock()
		return nil, err
	}
	before := len(c.out)
	c.out = r.appendTo(c.out)
	own.bytes = len(c.out) - before
	c.push(own)
	c.calls++
	writes := c.n <= directCalls && c.bytes <= directBytes && c.writes.TryLock()
	reads := writes && c.n == 1 && !c.reading
	switch {
	case reads:
		own.direct, c.reading = true, true
		c.turns++
	case !c.reading:
		Notify(c.toRead)
	}
	if !writes {
		Notify(c.toWrite)
		c.mu.Unlock()
		return c.await(ctx, own)
	}
	written := c.takeOut()
	c.mu.Unlock()
	_, err := c.net.Write(written)
	if err != nil {
		c.lost(err) // before another caller can write behind a part of a request
	}
	c.writes.Unlock()
	if reads {
		return c.readOwn(ctx, own, written)
	}
	c.mu.Lock()
	c.reuse(written)
	c.mu.Unlock()
	return c.await(ctx, own)
}

// dueSoon returns the deadline of a caller that might be interrupted only after it; soon is false if there is none.
func dueSoon(ctx context.Context) (deadline time.Time, soon bool) {
	deadline, ok := ctx.Deadline()
	return deadline, ok && time.Until(deadline) <= 2*tick
}

// reuse lets the next request be written into a buffer that is not needed any more. mu is locked.
func (c *conn) reuse(written []byte) {
	if c.spare == nil && cap(written) <= bufferSize {
		c.spare = written[:0]
	}
}

// cannot returns why a request can't be sent now; nil if it can. mu is locked.
func (c *conn) cannot(ctx context.Context) error {
	if c.err != nil {
		return c.err
	}
	if c.n == len(c.under) {
		return ctx.Err()
	}
	return nil
}

// awaitRoom waits until another call fits, the connection has ended, or ctx is done. mu is locked before and after.
func (c *conn) awaitRoom(ctx context.Context) {
	c.waiting++
	for c.n == len(c.under) && c.err == nil && ctx.Err() == nil {
		c.mu.Unlock()
		select {
		case <-c.vacant:
		case <-c.dead:
		case <-ctx.Done():
		}
		c.mu.Lock()
	}
	c.waiting--
	if c.waiting > 0 && c.n < len(c.under) {
		Notify(c.vacant) // there may be room for the next one too
	}
}

// readOwn reads until the caller's own call is over, and gives the reading flag back. The bytes that were written may
// be used again.
func (c *conn) readOwn(ctx context.Context, own *call, written []byte) (*call, error) {
	deadline, soon := dueSoon(ctx)
	if soon {
		c.net.SetReadDeadline(deadline) //nolint:errcheck // it was tried when the connection was made
	}
	for {
		n, err := 0, error(nil)
		if !c.isDead() {
			n, err = c.net.Read(c.in.space())
		}
		c.mu.Lock()
		_, strange := c.received(n)
		slow := errors.Is(err, os.ErrDeadlineExceeded)
		if own.over || slow || c.err != nil {
			if soon { // the next caller may have more time
				c.net.SetReadDeadline(time.Time{}) //nolint:errcheck // it was tried when the connection was made
			}
			c.reading, own.direct = false, false
			if slow && !own.over {
				c.calm = slowServer
			}
			if c.n > 0 {
				Notify(c.toRead)
			}
			c.reuse(written)
			over := own.over
			c.mu.Unlock()
			switch {
			case strange != nil:
				c.lost(strange)
			case !over:
				return c.await(ctx, own)
			}
			return own.result()
		}
		c.mu.Unlock()
		if err == nil {
			err = strange
		}
		if err != nil {
			c.lost(err) // and with that own is over
		}
	}
}

// await waits until a call is over that others read for, or gives it up.
func (c *conn) await(ctx context.Context, own *call) (*call, error) {
	c.switches.Add(1)
	select {
	case <-own.done:
		return own.result()
	case <-ctx.Done():
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if own.over {
		<-own.done
		return own.result()
	}
	own.dropped, own.replies = true, nil
	return nil, ctx.Err()
}

// result returns a call that is over, or its error.
func (c *call) result() (*call, error) {
	if c.err != nil {
		return nil, c.err
	}
	return c, nil
}

// free lets another caller use a call whose replies were read.
func (c *call) free() { callPool.Put(c) }

// finish makes a call over and wakes its caller. mu is locked.
func (c *call) finish(err error) {
	c.err, c.over = err, true
	if !c.direct && !c.dropped {
		c.done <- struct{}{}
	}
}

// push adds a call, for which there is room. mu is locked here, and in pop, takeOut and received.
func (c *conn) push(own *call) {
	c.under[(c.first+c.n)%len(c.under)] = own
	c.n++
	c.bytes += own.bytes
}

// pop removes the first call.
func (c *conn) pop() *call {
	own := c.under[c.first]
	c.under[c.first] = nil
	c.first = (c.first + 1) % len(c.under)
	c.n--
	c.bytes -= own.bytes
	if c.waiting > 0 {
		Notify(c.vacant)
	}
	return own
}

// takeOut returns what is to be written, and leaves nothing.
func (c *conn) takeOut() []byte {
	taken := c.out
	c.out, c.spare = c.spare, nil
	return taken
}

// received takes n more bytes that were read, and gives complete replies to the calls that they belong to. It returns
// how many replies there were.
//
// After an error it returns the same error each time. Until the connection has ended because of it, another goroutine
// may read, and would take the bytes that are left for the reply to a later request.
func (c *conn) received(n int) (replies int, err error) {
	c.in.end += n
	for c.err == nil && c.strange == nil {
		var reply Reply
		var ok bool
		if reply, ok, c.strange = c.in.next(); !ok {
			break
		}
		if reply.kind == '>' {
			continue // a push, which no caller has subscribed to
		}
		if c.n == 0 {
			c.strange = errSurplus
			break
		}
		replies++
		own := c.under[c.first]
		if !own.dropped {
			own.replies = append(own.replies, reply)
		}
		if own.want--; own.want == 0 {
			c.pop().finish(nil)
		}
	}
	if c.err == nil && c.strange == nil && c.n == 0 && c.in.begun() {
		c.strange = errSurplus // its end would come after the next request
	}
	return replies, c.strange
}

// isDead reports whether the connection has ended.
func (c *conn) isDead() bool {
	select {
	case <-c.dead:
		return true
	default:
		return false
	}
}

// write writes what callers have not written by themselves, until the connection ends.
func (c *conn) write() {
	for {
		select {
		case <-c.toWrite:
		case <-c.dead:
			return
		}
		runtime.Gosched() // callers that are ready to send come first, so that one write does for all
		c.writes.Lock()
		for {
			c.mu.Lock()
			bytes := c.takeOut()
			c.mu.Unlock()
			if len(bytes) == 0 {
				break
			}
			_, err := c.net.Write(bytes)
			if err != nil {
				c.lost(err)
				break
			}
			c.mu.Lock()
			c.reuse(bytes)
			c.mu.Unlock()
		}
		c.writes.Unlock()
	}
}

// read reads while callers do not, until the connection ends. Then it closes it.
func (c *conn) read() {
	defer c.net.cut()
	ticks := time.NewTimer(tick)
	defer ticks.Stop()
	var seen watch
	for {
		select {
		case <-c.toRead:
		case <-ticks.C:
			if !c.check(&seen) {
				c.lost(ErrNoAnswer)
			}
			ticks.Reset(tick)
		case <-c.dead:
			return
		}
		if c.takeOver(seen.idle >= watchAfter) {
			if !c.readForAll() {
				return
			}
			seen = watch{}
			ticks.Reset(tick)
		}
	}
}

// A watch is what the reader has seen of the callers.
type watch struct {
	calls uint64 // how many calls there were at the last tick
	idle  int    // for how many ticks nothing was called
	turns uint64 // how often callers had taken the reading flag at the last tick
	stuck int    // for how many ticks one caller has had the reading flag
}

// check interrupts a caller that has read since the last tick, whatever others have called meanwhile. It returns false
// if that has no effect: then the caller can't even write, as over a connection without a buffer to a server that is
// silent.
func (c *conn) check(seen *watch) (alive bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.calls != seen.calls {
		seen.calls, seen.idle = c.calls, 0
	} else if !c.reading {
		seen.idle++
	}
	switch {
	case !c.reading:
		seen.stuck = 0
	case c.turns != seen.turns:
		seen.turns, seen.stuck = c.turns, 0
	default:
		c.net.SetReadDeadline(longAgo) //nolint:errcheck // it was tried when the connection was made
		seen.stuck++
	}
	return seen.stuck < int(SilenceWithin/tick)
}

// takeOver takes the reading flag if there is something to read, or if the connection is to be watched.
func (c *conn) takeOver(watch bool) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.reading || c.n == 0 && !watch {
		return false
	}
	c.reading = true
	return true
}

// readForAll reads until calls come one by one. It returns false when the connection has ended. Without any call, it
// sees to it that the server is there.
func (c *conn) readForAll() bool {
	var silentSince time.Time
	c.mu.Lock()
	calls := c.calls
	c.mu.Unlock()
	for {
		c.net.SetReadDeadline(time.Now().Add(pingEvery)) //nolint:errcheck // it was tried when the connection was made
		if c.isDead() {
			return false
		}
		n, err := c.net.Read(c.in.space())
		if n > 0 {
			wakeMonitor()
		}
		c.mu.Lock()
		replies, strange := c.received(n)
		switch {
		case replies == 1 && c.n == 0:
			c.calm++
		case replies > 0:
			c.calm = min(c.calm, 0)
		}
		switch {
		case n > 0:
			silentSince = time.Time{}
		case silentSince.IsZero(): // it has been silent for pingEvery, as an idle server is too
			silentSince = time.Now()
			if c.n == 0 && c.err == nil {
				c.ping()
			}
		}
		alone := c.n == 0 && c.calm >= calmEnough && c.calls != calls
		if alone {
			c.reading = false
			c.net.SetReadDeadline(time.Time{}) //nolint:errcheck // it was tried when the connection was made
		}
		c.mu.Unlock()
		switch {
		case strange != nil:
			err = strange
		case !errors.Is(err, os.ErrDeadlineExceeded):
		case silentSince.IsZero() || time.Since(silentSince) < SilenceWithin:
			err = nil
		default:
			err = ErrNoAnswer
		}
		if err != nil {
			c.lost(err)
			return false
		}
		if alone {
			return true
		}
	}
}

// ping sends a PING whose reply is dropped. mu is locked, and no call is under way.
func (c *conn) ping() {
	before := len(c.out)
	c.out = appendCommand(c.out, "PING")
	c.push(&call{want: 1, bytes: len(c.out) - before, dropped: true})
	Notify(c.toWrite)
}

// Notify puts a token into a channel that holds one.
func Notify(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// An input is bytes that were read. Those before start have been used.
type input struct {
	buffer     []byte
	start, end int
	scanner    scanner
}

// The sizes that the buffer of an input has at first, and those that it keeps.
const (
	firstInput = 4 << 10
	mostInput  = bufferSize
)

// space returns where more bytes can be read to.
func (i *input) space() []byte {
	switch {
	case i.start == i.end:
		i.start, i.end = 0, 0
		if len(i.buffer) == 0 || len(i.buffer) > mostInput {
			i.buffer = make([]byte, firstInput)
		}
	case i.end == len(i.buffer) && i.start > 0:
		i.end = copy(i.buffer, i.buffer[i.start:i.end])
		i.start = 0
	}
	if i.end == len(i.buffer) {
		i.buffer = append(i.buffer, make([]byte, len(i.buffer))...)
	}
	return i.buffer[i.end:]
}

// next returns the next reply, if all of it has arrived.
func (i *input) next() (r Reply, ok bool, err error) {
	if i.start == i.end {
		return r, false, nil
	}
	length, err := i.scanner.scan(i.buffer[i.start:i.end])
	if err != nil || length == 0 {
		return r, false, err
	}
	r, err = parse(i.buffer[i.start : i.start+length])
	i.start += length
	return r, err == nil, err
}

// begun reports whether there is a part of a reply, and not of a push.
func (i *input) begun() bool { return i.start < i.end && i.buffer[i.start] != '>' }
