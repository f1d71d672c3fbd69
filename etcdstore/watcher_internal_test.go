package etcdstore

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"google.golang.org/grpc"
)

// A watchStream is one over which a test speaks as etcd.
type watchStream struct {
	grpc.ClientStream
	ctx     context.Context
	sent    chan *etcdserverpb.WatchRequest
	answers chan *etcdserverpb.WatchResponse
}

func (s *watchStream) Send(r *etcdserverpb.WatchRequest) error {
	select {
	case s.sent <- r:
		return nil
	case <-s.ctx.Done():
		return s.ctx.Err()
	}
}

func (s *watchStream) Recv() (*etcdserverpb.WatchResponse, error) {
	select {
	case r := <-s.answers:
		return r, nil
	case <-s.ctx.Done():
		return nil, s.ctx.Err()
	}
}

// A post is a watcher, and the streams that it has opened.
type post struct {
	*watcher
	streams  []*watchStream
	everyone int      // how often everyone was told
	told     []string // what the watches were told
}

// look runs a test with a watcher, in fake time.
func look(t *testing.T, test func(t *testing.T, p *post)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		life, end := context.WithCancel(t.Context())
		defer end()
		p := &post{}
		p.watcher = &watcher{
			life: life, watches: map[int64]*watch{}, filled: make(chan struct{}, 1),
			everyone: func() { p.everyone++ },
			open: func(ctx context.Context) (etcdserverpb.Watch_WatchClient, error) {
				s := &watchStream{
					ctx: ctx, sent: make(chan *etcdserverpb.WatchRequest, 100),
					answers: make(chan *etcdserverpb.WatchResponse, 100),
				}
				p.streams = append(p.streams, s)
				return s, nil
			},
		}
		go p.run()
		test(t, p)
		end()
		synctest.Wait()
	})
}

// watch begins to watch a key of which all up to a revision is known.
func (p *post) watch(key string, asOf int64) *watch {
	w := &watch{key: key, asOf: asOf}
	w.told = func(e *mvccpb.Event) {
		what := "?"
		if e != nil {
			what = e.Type.String()
		}
		p.told = append(p.told, key+" "+what)
	}
	p.add(w)
	return w
}

// demands is what was asked of the present stream since the last time.
func (p *post) demands() (all []string) {
	synctest.Wait()
	if len(p.streams) == 0 {
		return nil
	}
	for s := p.streams[len(p.streams)-1]; len(s.sent) > 0; {
		switch r := <-s.sent; {
		case r.GetCreateRequest() != nil:
			all = append(all, "create "+string(r.GetCreateRequest().Key))
		case r.GetCancelRequest() != nil:
			all = append(all, fmt.Sprintf("cancel %d", r.GetCancelRequest().WatchId))
		default:
			all = append(all, "progress")
		}
	}
	return all
}

// says has etcd say something, and waits until it has been heard.
func (p *post) says(r *etcdserverpb.WatchResponse) {
	if r.Header == nil {
		r.Header = &etcdserverpb.ResponseHeader{}
	}
	p.streams[len(p.streams)-1].answers <- r
	synctest.Wait()
}

// created is etcd's answer to the creation of a watch.
func created(w *watch, at int64) *etcdserverpb.WatchResponse {
	return &etcdserverpb.WatchResponse{Created: true, WatchId: w.id, Header: &etcdserverpb.ResponseHeader{Revision: at}}
}

func removed(w *watch) *etcdserverpb.WatchResponse {
	return &etcdserverpb.WatchResponse{WatchId: w.id, Events: []*mvccpb.Event{{Type: mvccpb.Event_DELETE}}}
}

// reopen lets the stream break, and waits for another.
func (p *post) reopen(t *testing.T) {
	t.Helper()
	n := len(p.streams)
	p.mu.Lock()
	p.cut()
	p.mu.Unlock()
	time.Sleep(time.Second)
	synctest.Wait()
	if len(p.streams) != n+1 {
		t.Fatalf("%d streams were opened after one broke", len(p.streams)-n)
	}
}

func (p *post) expect(t *testing.T, what string, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s: %q; want %q", what, got, want)
	}
}

// What happened between what a watcher knew and the beginning of its watch makes it look.
func TestGapBeforeWatch(t *testing.T) {
	look(t, func(t *testing.T, p *post) {
		a, b, c := p.watch("a", 10), p.watch("b", 10), p.watch("c", 10)
		p.expect(t, "sent", p.demands(), "create a", "create b", "create c")
		p.says(created(a, 9))
		p.says(created(b, 10))
		p.expect(t, "told though nothing happened", p.told)
		p.says(created(c, 11))
		p.expect(t, "told", p.told, "c ?")
	})
}

// Answers to creations are told apart by their order, whatever was ended meanwhile.
func TestEndBeforeCreated(t *testing.T) {
	look(t, func(t *testing.T, p *post) {
		a, b := p.watch("a", 10), p.watch("b", 10)
		p.remove(a)
		p.remove(a)
		p.expect(t, "sent", p.demands(), "create a", "create b", "cancel 1")
		p.says(created(a, 11))
		p.says(removed(a))
		p.expect(t, "told of what nobody watches", p.told)
		p.says(created(b, 11))
		p.says(removed(b))
		p.expect(t, "told", p.told, "b ?", "b DELETE")
	})
}

// After a stream has broken everyone is told, once, when all watches are there again and not before: what happens after
// that comes as an event.
func TestWatchesResume(t *testing.T) {
	look(t, func(t *testing.T, p *post) {
		a, b, c := p.watch("a", 10), p.watch("b", 10), p.watch("c", 10)
		p.demands()
		p.says(created(a, 10))
		p.remove(b)
		p.reopen(t)
		p.expect(t, "sent over the new stream", p.demands(), "create a", "create c")
		d := p.watch("d", 20)
		p.remove(c)
		p.says(created(a, 50))
		if p.everyone != 0 {
			t.Error("everyone was told while a watch was missing")
		}
		p.says(created(c, 50))
		if p.everyone != 1 {
			t.Errorf("everyone was told %d times when all watches were there", p.everyone)
		}
		p.says(created(d, 50))
		p.says(removed(a))
		p.expect(t, "told", p.told, "d ?", "a DELETE")
		if p.everyone != 1 {
			t.Errorf("everyone was told %d times in the end", p.everyone)
		}
	})
}

// Somebody may have joined while no stream was there: everyone is told also when there is nothing to watch.
func TestNothingToResume(t *testing.T) {
	look(t, func(t *testing.T, p *post) {
		p.remove(p.watch("a", 10))
		p.demands()
		p.reopen(t)
		if p.everyone != 1 {
			t.Errorf("everyone was told %d times", p.everyone)
		}
	})
}

// A watch that the server ends is begun anew, and its watcher has to look.
func TestServerEndsWatch(t *testing.T) {
	look(t, func(t *testing.T, p *post) {
		a := p.watch("a", 10)
		p.demands()
		p.says(created(a, 10))
		p.says(&etcdserverpb.WatchResponse{WatchId: a.id, Canceled: true, CompactRevision: 5})
		p.expect(t, "sent", p.demands(), "create a")
		p.says(created(a, 10))
		p.expect(t, "told", p.told, "a ?")
		p.remove(a)
		p.expect(t, "sent at the end", p.demands(), fmt.Sprintf("cancel %d", a.id))
	})
}

// A watch that cannot be had ends the stream: another one has another login.
func TestWatchIsRefused(t *testing.T) {
	look(t, func(t *testing.T, p *post) {
		p.watch("a", 10)
		p.demands()
		p.says(&etcdserverpb.WatchResponse{Created: true, Canceled: true, WatchId: -1, CancelReason: "no"})
		time.Sleep(time.Second)
		p.expect(t, "sent over the new stream", p.demands(), "create a")
	})
}

// A stream that receives nothing between two beats is given up; one that receives anything is not.
func TestSilentStreamIsGivenUp(t *testing.T) {
	look(t, func(t *testing.T, p *post) {
		p.checkAlive()
		p.checkAlive()
		a := p.watch("a", 10)
		p.demands()
		p.says(created(a, 10))
		for range 3 {
			p.checkAlive()
			if len(p.demands()) == 0 {
				t.Fatal("nothing was sent that asks for an answer")
			}
			p.says(&etcdserverpb.WatchResponse{WatchId: -1})
		}
		if len(p.streams) != 1 {
			t.Fatal("a stream that answers was given up")
		}
		p.expect(t, "told of a sign of life", p.told)
		p.checkAlive()
		p.checkAlive()
		time.Sleep(time.Second)
		p.expect(t, "sent over the new stream", p.demands(), "create a")
	})
}

// Before 3.7, etcd does not answer a request for progress while nothing is written: that is no sign of death. The
// creation of a watch it always answers.
func TestSignOfLifeInIdleServer(t *testing.T) {
	look(t, func(t *testing.T, p *post) {
		a := p.watch("a", 10)
		p.demands()
		p.says(created(a, 10))
		for range 3 {
			p.checkAlive()
			for _, d := range p.demands() {
				if d != "progress" && d[:6] == "create" {
					p.says(
						&etcdserverpb.WatchResponse{
							Created: true,
							WatchId: p.last,
							Header:  &etcdserverpb.ResponseHeader{Revision: 10},
						},
					)
				}
			}
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if len(p.streams) != 1 {
			t.Error("a healthy stream was given up")
		}
		p.expect(t, "told", p.told)
		if n := len(p.watches); n != 1 {
			t.Errorf("%d watches are left; want 1", n)
		}
	})
}
