package etcdstore

import (
	"cmp"
	"context"
	"iter"
	"strings"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/client/v3"

	"github.com/holdfast-go/holdfast/internal/pause"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/frame"
)

var (
	_ store.Watcher = (*Store)(nil)
	_ store.Lister  = (*Store)(nil)
)

// checkStream is how often the stream of a Watch is checked for a sign of life.
const checkStream = 10 * time.Second

// Watch implements store.Watcher: one watch of all keys whose names begin with prefix, over a stream of its own. What
// etcd may refuse, for lack of a permission, must not end the watches of this client's claims.
func (s *Store) Watch(ctx context.Context, prefix string, changed func(name string)) error {
	if err := s.frame.Alive(ctx); err != nil {
		return err
	}
	life, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(s.frame.Life(), cancel)()
	ws := newWatcher(s.frame, s.etcd.client.ActiveConnection())
	ws.life, ws.everyone = life, func() { changed("") }
	start := s.keys.queues + escaped.Escape(prefix)
	ws.add(&watch{key: start, end: clientv3.GetPrefixRangeEnd(start), puts: true, told: func(event *mvccpb.Event) {
		if event == nil {
			changed("")
		} else if name, ok := s.keys.name(string(event.Kv.Key)); ok && strings.HasPrefix(name, prefix) {
			changed(name)
		}
	}})
	var checks sync.WaitGroup
	checks.Go(func() {
		for pause.For(life, checkStream) {
			ws.checkAlive()
		}
	})
	err := ws.runUntilRefused(s.frame)
	cancel()
	checks.Wait()
	return cmp.Or(s.frame.Alive(ctx), err)
}

// runUntilRefused keeps a stream open until the watcher's life ends, or etcd refuses it for good.
func (ws *watcher) runUntilRefused(f *frame.Frame) error {
	for first := true; ws.life.Err() == nil; first = false {
		if err := f.Fault(ws.life, ws.serve(first)); store.Final(err) {
			return err
		}
		pause.For(ws.life, mostPause)
	}
	return ws.life.Err()
}

// listedLeases is of how many sessions Queues reads how much time they have left.
const listedLeases = 64

// Queues implements store.Lister. It reads claims in the order of their keys, so that those of a queue come together.
func (s *Store) Queues(ctx context.Context, prefix string) iter.Seq2[store.Queue, error] {
	return func(yield func(store.Queue, error) bool) {
		start := s.keys.queues + escaped.Escape(prefix)
		end := clientv3.GetPrefixRangeEnd(start)
		left := timesLeft{listedLeases, map[int64]time.Duration{}}
		for start != "" {
			page, err := s.readPage(ctx, start, end)
			if err != nil {
				yield(store.Queue{}, err)
				return
			}
			full := len(page) == pageSize
			for start = ""; len(page) > 0; {
				line, n := s.keys.firstLine(page)
				name, ok := s.keys.name(line)
				ok = ok && strings.HasPrefix(name, prefix) // otherwise it is another program's key
				if full && n == len(page) {
					// The page may end in the midst of this queue. One that fills a page is read by itself.
					if start = line; n == pageSize {
						start = clientv3.GetPrefixRangeEnd(line)
						if ok && !store.YieldQueue(ctx, s, name, yield) {
							return
						}
					}
					break
				}
				if ok && !s.yieldQueue(ctx, name, page[:n], &left, yield) {
					return
				}
				page = page[n:]
			}
		}
	}
}

// firstLine returns what the keys of the first of these claims' line begin with, and how many of them do.
func (k *keySpace) firstLine(kvs []*mvccpb.KeyValue) (line string, n int) {
	line = string(kvs[0].Key)
	if i := strings.LastIndexByte(line, '/'); i >= len(k.queues) {
		line = line[:i+1]
	}
	for n < len(kvs) && strings.HasPrefix(string(kvs[n].Key), line) {
		n++
	}
	return line, n
}

// yieldQueue yields the queue of these claims.
func (s *Store) yieldQueue(
	ctx context.Context, name string, kvs []*mvccpb.KeyValue, left *timesLeft, yield func(store.Queue, error) bool,
) (goOn bool) {
	call := s.frame.Call(ctx, frame.AskTimeout)
	defer call.End()
	entries, err := decodeLine(kvs)
	if err != nil {
		return yield(store.Queue{Name: name}, call.Outcome(err))
	}
	return yield(store.Queue{Name: name, Entries: s.places(call.Context, entries, left)}, nil)
}
