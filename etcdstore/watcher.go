package etcdstore

import (
	"cmp"
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/frame"
)

// A watcher watches keys, as many as there are, over one stream and with two goroutines. The client library's watches
// have a goroutine for each key, and are made one after the other when a stream has to be opened again.
//
// Every watch begins with the present. etcd serves a watch that begins in the past from a queue that it looks at ten times
// a second, and until then holds back also what happens now: a waiter would be told of its turn a tenth of a second late.
// In exchange there is a gap between what the watcher knew and the beginning of its watch. The answer to its creation
// says at which revision that was; if it is later than what the watcher knew, the watcher is told to look.
type watcher struct {
	open     func(context.Context) (etcdserverpb.Watch_WatchClient, error)
	life     context.Context
	everyone func() // tells that events may have been lost

	mu       sync.Mutex
	last     int64            // id of the youngest watch
	watches  map[int64]*watch // all that are wanted
	outbox   []*etcdserverpb.WatchRequest
	filled   chan struct{} // holds a token when there is something in the outbox
	creating []*watch      // those whose creation was put into the outbox and not yet answered, in that order
	resuming int           // how many of creating are from before this stream
	cut      context.CancelFunc
	heard    bool // something came over the stream since it was last checked
	checked  bool
}

// A watch is a key or a range of keys that somebody looks out for.
type watch struct {
	id       int64
	key, end string // end empty: one key
	puts     bool   // writing counts too, not only removal
	asOf     int64  // the revision up to which its watcher knows

	// told is called when something happened there, or may have. event is nil if it is not known what. It is called by the
	// watcher's goroutine, without its lock.
	told func(event *mvccpb.Event)
}

// How long the watcher waits before it opens its stream again.
const (
	leastPause = 10 * time.Millisecond
	mostPause  = 250 * time.Millisecond
)

func newWatcher(f *frame.Frame, conn grpc.ClientConnInterface) watcher {
	return watcher{
		life: f.Life(), watches: map[int64]*watch{}, filled: make(chan struct{}, 1),
		everyone: func() { f.Push(store.Everyone, store.Standing{}) },
		open: func(ctx context.Context) (etcdserverpb.Watch_WatchClient, error) {
			return etcdserverpb.NewWatchClient(conn).Watch(clientv3.WithRequireLeader(ctx))
		},
	}
}

// add begins a watch.
func (l *watcher) add(w *watch) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.create(w)
}

// create puts the creation of w into the outbox.
func (l *watcher) create(w *watch) {
	l.last++
	w.id = l.last
	l.watches[w.id] = w
	l.creating = append(l.creating, w)
	l.put(w.creation())
}

func (l *watcher) put(r *etcdserverpb.WatchRequest) {
	l.outbox = append(l.outbox, r)
	select {
	case l.filled <- struct{}{}:
	default:
	}
}

func (w *watch) creation() *etcdserverpb.WatchRequest {
	r := &etcdserverpb.WatchCreateRequest{Key: []byte(w.key), WatchId: w.id}
	if w.end != "" {
		r.RangeEnd = []byte(w.end)
	}
	if !w.puts {
		r.Filters = []etcdserverpb.WatchCreateRequest_FilterType{etcdserverpb.WatchCreateRequest_NOPUT}
	}
	return &etcdserverpb.WatchRequest{RequestUnion: &etcdserverpb.WatchRequest_CreateRequest{CreateRequest: r}}
}

// remove ends a watch. Nothing is told of it from then on, but for what is being told just now.
func (l *watcher) remove(w *watch) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, known := l.watches[w.id]; known {
		l.discard(w)
	}
}

// discard puts the end of w into the outbox.
func (l *watcher) discard(w *watch) {
	delete(l.watches, w.id)
	l.put(&etcdserverpb.WatchRequest{RequestUnion: &etcdserverpb.WatchRequest_CancelRequest{
		CancelRequest: &etcdserverpb.WatchCancelRequest{WatchId: w.id},
	}})
}

// checkAlive asks the stream for a sign of life. If none came since the last time, the stream is given up: its connection may be
// dead without anybody having said so, while others live.
func (l *watcher) checkAlive() {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.cut == nil || len(l.watches) == 0:
		l.checked = false
		return
	case l.checked && !l.heard:
		l.cut()
		return
	}
	l.checked, l.heard = true, false
	// Before 3.7, etcd answers no request for progress while nothing is written. The creation of a watch it always answers.
	for _, w := range l.watches {
		sign := &watch{key: w.key}
		l.create(sign)
		l.discard(sign)
		return
	}
}

// run keeps a stream open for as long as the store lives, once there is something to watch.
func (l *watcher) run() {
	select {
	case <-l.filled:
	case <-l.life.Done():
	}
	pause := leastPause
	for first := true; l.life.Err() == nil; first = false {
		began := time.Now()
		_ = l.serve(first) // whatever it was, Keep tells those who wait
		if time.Since(began) > time.Second {
			pause = leastPause
		}
		select {
		case <-time.After(pause - rand.N(pause/4)):
		case <-l.life.Done():
		}
		pause = min(2*pause, mostPause)
	}
}

// serve opens a stream, and receives what comes over it until it breaks.
func (l *watcher) serve(first bool) error {
	ctx, cancel := context.WithCancel(l.life)
	defer cancel()
	stream, err := l.open(ctx)
	if err != nil {
		return err
	}
	if l.begin(first, cancel) {
		l.everyone()
	}
	var sender sync.WaitGroup
	sender.Go(func() {
		if l.send(ctx, stream) != nil {
			cancel()
		}
	})
	for err == nil {
		var r *etcdserverpb.WatchResponse
		if r, err = stream.Recv(); err == nil {
			err = l.receive(r)
		}
	}
	cancel()
	sender.Wait()
	l.mu.Lock()
	l.cut = nil
	l.mu.Unlock()
	return err
}

// begin puts the creation of all watches into the outbox of a new stream. It says whether everyone is to be told at once,
// because there are none.
func (l *watcher) begin(first bool, cut context.CancelFunc) (tell bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cut, l.checked, l.heard = cut, false, false
	if first {
		return false // what has come together so far is in the outbox
	}
	l.outbox, l.creating = nil, nil
	for _, w := range l.watches {
		l.creating = append(l.creating, w)
		w.asOf = math.MaxInt64 // everyone is told below
	}
	slices.SortFunc(l.creating, func(a, b *watch) int { return cmp.Compare(a.id, b.id) })
	for _, w := range l.creating {
		l.put(w.creation())
	}
	l.resuming = len(l.creating)
	return l.resuming == 0
}

// send sends what is put into the outbox.
func (l *watcher) send(ctx context.Context, stream etcdserverpb.Watch_WatchClient) error {
	for {
		l.mu.Lock()
		requests := l.outbox
		l.outbox = nil
		l.mu.Unlock()
		for _, r := range requests {
			if err := stream.Send(r); err != nil {
				return err
			}
		}
		if len(requests) > 0 {
			continue
		}
		select {
		case <-l.filled:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// receive takes one message.
func (l *watcher) receive(r *etcdserverpb.WatchResponse) error {
	l.mu.Lock()
	l.heard = true
	w, resumed, err := l.concerned(r)
	var told func(*mvccpb.Event)
	if w != nil {
		told = w.told
	}
	l.mu.Unlock()
	if resumed {
		l.everyone()
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
	return err
}

// concerned is the watch that has to be told of a message, if any. It also says whether with it all watches from before
// this stream are there again.
func (l *watcher) concerned(r *etcdserverpb.WatchResponse) (w *watch, resumed bool, err error) {
	switch {
	case r.Created:
		if len(l.creating) == 0 {
			return nil, false, errors.New("etcd answered a watch that nobody asked for")
		}
		w = l.creating[0]
		l.creating = l.creating[1:]
		if r.Canceled { // no permission, or a token that ran out: a new stream has a new one
			return nil, false, errors.New(r.CancelReason)
		}
		if l.resuming > 0 {
			l.resuming--
			resumed = l.resuming == 0
		}
		if l.watches[w.id] != w || r.Header.Revision <= w.asOf {
			w = nil // it is not wanted any more, or nothing has happened meanwhile
		}
		return w, resumed, nil
	case r.WatchId < 0: // progress, of all
		return nil, false, nil
	}
	if w = l.watches[r.WatchId]; w == nil || !r.Canceled {
		if w != nil && len(r.Events) == 0 {
			w = nil // progress
		}
		return w, false, nil
	}
	// The server ended it: what it had yet to send was compacted. It is begun anew, and then told to look.
	delete(l.watches, w.id)
	w.asOf = 0
	l.create(w)
	return nil, false, nil
}
