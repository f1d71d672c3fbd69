package etcdstore

import (
	"context"
	"errors"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"

	"github.com/holdfast-go/holdfast/internal/pause"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/frame"
)

// A watcher watches any number of keys over one stream and with two goroutines. The client library needs a goroutine
// for each watch, and creates the watches one after the other when a stream is reopened.
//
// Every watch begins with the present. etcd serves a watch that begins in the past from a queue that it polls ten times
// a second, and meanwhile delays new events too: a waiter would be notified of its grant a tenth of a second late. In
// exchange there is a gap between the last revision that a claim knows and the beginning of its watch. The response to
// the creation has the revision of that beginning; if it is later than what the claim knows, the claim is notified.
type watcher struct {
	open     func(context.Context) (etcdserverpb.Watch_WatchClient, error)
	life     context.Context
	everyone func() // tells that events may have been lost

	mu       sync.Mutex
	last     int64            // id of the youngest watch
	watches  map[int64]*watch // all that are wanted
	outbox   []*etcdserverpb.WatchRequest
	filled   chan struct{} // holds a token when there is something in the outbox
	creating []*watch      // those whose creation was put into the outbox and not yet responded to, in that order
	resuming int           // how many of creating are from before this stream
	cut      context.CancelFunc
	heard    bool // something came over the stream since it was last checked
	checked  bool
}

// A watch is a watch on a key or on a range of keys.
type watch struct {
	id       int64
	key, end string // end empty: one key
	puts     bool   // writing counts too, not only removal
	asOf     int64  // the revision up to which its claim knows

	// told is called when something has changed there, or may have. event is nil if the change is not known. told is
	// called by the watcher's goroutine, without its lock.
	told func(event *mvccpb.Event)
}

// The pauses before the watcher reopens its stream: the first, and the longest.
const (
	leastPause = 10 * time.Millisecond
	mostPause  = 250 * time.Millisecond
)

// newWatcher returns a watcher over conn. run must be called to start it.
func newWatcher(f *frame.Frame, conn grpc.ClientConnInterface) watcher {
	return watcher{
		life: f.Life(), watches: map[int64]*watch{}, filled: make(chan struct{}, 1),
		everyone: func() { f.Push(store.Everyone, store.Status{}) },
		open: func(ctx context.Context) (etcdserverpb.Watch_WatchClient, error) {
			return etcdserverpb.NewWatchClient(conn).Watch(clientv3.WithRequireLeader(ctx))
		},
	}
}

// add begins a watch. It does not wait for the server.
func (ws *watcher) add(w *watch) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	ws.register(w)
}

// register gives w a new id, and puts its creation into the outbox. The mutex is locked.
func (ws *watcher) register(w *watch) {
	ws.last++
	w.id = ws.last
	ws.watches[w.id] = w
	ws.create(w)
}

// create puts the request that creates w into the outbox.
func (ws *watcher) create(w *watch) {
	r := &etcdserverpb.WatchCreateRequest{Key: []byte(w.key), WatchId: w.id}
	if w.end != "" {
		r.RangeEnd = []byte(w.end)
	}
	if !w.puts {
		r.Filters = []etcdserverpb.WatchCreateRequest_FilterType{etcdserverpb.WatchCreateRequest_NOPUT}
	}
	ws.creating = append(ws.creating, w)
	ws.put(&etcdserverpb.WatchRequest{RequestUnion: &etcdserverpb.WatchRequest_CreateRequest{CreateRequest: r}})
}

// put puts a request into the outbox, and wakes send.
func (ws *watcher) put(r *etcdserverpb.WatchRequest) {
	ws.outbox = append(ws.outbox, r)
	select {
	case ws.filled <- struct{}{}:
	default:
	}
}

// remove ends a watch. It is not notified any more, except by a call of told that is in progress.
func (ws *watcher) remove(w *watch) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	ws.unregister(w)
}

// unregister removes w, and puts its cancellation into the outbox. The mutex is locked.
func (ws *watcher) unregister(w *watch) {
	if ws.watches[w.id] == w {
		delete(ws.watches, w.id)
		r := &etcdserverpb.WatchCancelRequest{WatchId: w.id}
		ws.put(&etcdserverpb.WatchRequest{RequestUnion: &etcdserverpb.WatchRequest_CancelRequest{CancelRequest: r}})
	}
}

// checkAlive requests a response over the stream. If nothing was received since the last call, it closes the stream:
// its connection may be dead without an error, while others are alive.
func (ws *watcher) checkAlive() {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	switch {
	case ws.cut == nil || len(ws.watches) == 0:
		ws.checked = false
		return
	case ws.checked && !ws.heard:
		ws.cut()
		return
	}
	ws.checked, ws.heard = true, false
	// Before 3.7, etcd does not respond to a request for progress while nothing is written. It always responds to the
	// creation of a watch.
	for _, w := range ws.watches {
		sign := &watch{key: w.key}
		ws.register(sign)
		ws.unregister(sign)
		return
	}
}

// run keeps a stream open from the first watch until the store is closed. It reopens a stream that ends.
func (ws *watcher) run() {
	select {
	case <-ws.filled:
	case <-ws.life.Done():
	}
	wait := leastPause
	for first := true; ws.life.Err() == nil; first = false {
		began := time.Now()
		_ = ws.serve(first) // whatever it was, Keep tells claims that wait
		if time.Since(began) > time.Second {
			wait = leastPause
		}
		pause.For(ws.life, wait-rand.N(wait/4))
		wait = min(2*wait, mostPause)
	}
}

// serve opens a stream, and receives messages until it breaks. It returns why it broke.
func (ws *watcher) serve(first bool) error {
	ctx, cancel := context.WithCancel(ws.life)
	defer cancel()
	stream, err := ws.open(ctx)
	if err != nil {
		return err
	}
	if ws.begin(first, cancel) {
		ws.everyone()
	}
	var sender sync.WaitGroup
	sender.Go(func() {
		if ws.send(ctx, stream) != nil {
			cancel()
		}
	})
	for err == nil {
		var r *etcdserverpb.WatchResponse
		if r, err = stream.Recv(); err == nil {
			err = ws.receive(r)
		}
	}
	cancel()
	sender.Wait()
	ws.mu.Lock()
	ws.cut = nil
	ws.mu.Unlock()
	return err
}

// begin puts the creation of all watches into the outbox of a new stream. It reports whether all claims are to be
// notified now, because there is no watch whose creation would do that.
func (ws *watcher) begin(first bool, cut context.CancelFunc) (tell bool) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	ws.cut, ws.checked, ws.heard = cut, false, false
	if first {
		return false // what has come together so far is in the outbox
	}
	ws.outbox, ws.creating = nil, nil
	for _, id := range slices.Sorted(maps.Keys(ws.watches)) {
		w := ws.watches[id]
		w.asOf = math.MaxInt64 // everyone is told when all are there
		ws.create(w)
	}
	ws.resuming = len(ws.creating)
	return ws.resuming == 0
}

// send sends the requests in the outbox until ctx or the stream ends, and returns the error.
func (ws *watcher) send(ctx context.Context, stream etcdserverpb.Watch_WatchClient) error {
	for {
		ws.mu.Lock()
		requests := ws.outbox
		ws.outbox = nil
		ws.mu.Unlock()
		for _, r := range requests {
			if err := stream.Send(r); err != nil {
				return err
			}
		}
		if len(requests) > 0 {
			continue
		}
		select {
		case <-ws.filled:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// receive handles one message, and notifies the watch that it concerns.
func (ws *watcher) receive(r *etcdserverpb.WatchResponse) error {
	ws.mu.Lock()
	ws.heard = true
	told, resumed, err := ws.dispatch(r)
	ws.mu.Unlock()
	if resumed {
		ws.everyone()
	}
	if told == nil {
		return err
	}
	if len(r.Events) == 0 {
		told(nil)
	}
	for _, e := range r.Events {
		told(e)
	}
	return nil
}

// dispatch returns the function to call for a message, or nil, and whether all watches of the previous stream have been
// created again with it.
func (ws *watcher) dispatch(r *etcdserverpb.WatchResponse) (told func(*mvccpb.Event), resumed bool, err error) {
	if r.Created {
		return ws.created(r)
	}
	switch w := ws.watches[r.WatchId]; {
	case w == nil: // it is not wanted any more, or progress of all
	case r.Canceled:
		// The server has cancelled it: events that it had not sent yet were compacted. The watch is created again, and
		// then notified.
		delete(ws.watches, w.id)
		w.asOf = 0
		ws.register(w)
	case len(r.Events) > 0: // otherwise it is progress
		told = w.told
	}
	return told, false, nil
}

// created handles the response to the oldest creation. It returns the same as dispatch.
func (ws *watcher) created(r *etcdserverpb.WatchResponse) (told func(*mvccpb.Event), resumed bool, err error) {
	switch {
	case len(ws.creating) == 0:
		return nil, false, errors.New("etcd answered a watch that nobody asked for")
	case r.Canceled: // no permission, or a token that expired: a new stream has a new one
		return nil, false, errors.New(r.CancelReason)
	}
	w := ws.creating[0]
	ws.creating = ws.creating[1:]
	if ws.resuming > 0 {
		ws.resuming--
		resumed = ws.resuming == 0
	}
	if ws.watches[w.id] == w && r.Header.Revision > w.asOf { // something has happened meanwhile
		told = w.told
	}
	return told, resumed, nil
}
