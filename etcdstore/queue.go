package etcdstore

import (
	"context"
	"iter"
	"slices"
	"strings"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/client/v3"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/frame"
	"github.com/holdfast-go/holdfast/store/grant"
)

// readEntries reads claims, and returns them with the revision of the read.
func (s *Store) readEntries(ctx context.Context, op clientv3.Op) (entries []entry, revision int64, err error) {
	read, revision, err := s.etcd.read(ctx, op)
	if err != nil {
		return nil, 0, err
	}
	entries, err = decodeLine(read.kvs(0))
	return entries, revision, err
}

// Queue implements store.Store.
func (s *Store) Queue(ctx context.Context, name string) (store.Queue, error) {
	l := store.Queue{Name: name}
	call, err := s.frame.Begin(ctx, name, frame.AskTimeout)
	if err != nil {
		return l, err
	}
	defer call.End()
	entries, _, err := s.readEntries(call.Context, s.keys.readLine(name))
	if err != nil {
		return l, call.Outcome(err)
	}
	l.Entries = s.places(call.Context, entries, &timesLeft{maxLeases, map[int64]time.Duration{}})
	return l, nil
}

// places returns the claims of a queue as entries.
func (s *Store) places(ctx context.Context, entries []entry, left *timesLeft) []store.Entry {
	places := make([]store.Entry, len(entries))
	var prefix grant.Prefix
	state, held := store.Held, 0
	for i := range entries {
		if state == store.Held && prefix.Admit(entries[i].ask()) {
			held++
		} else {
			state = store.Waiting
		}
		places[i] = s.place(&entries[i], state)
	}
	s.readTimeLeft(ctx, places[:held], entries, left)
	return places
}

// place returns a claim as an entry. The time of a grant is known here for claims of this client; claims of other
// clients have it in their value after they were held for a while.
func (s *Store) place(e *entry, state store.State) store.Entry {
	name, _ := s.keys.name(string(e.kv.Key))
	p := store.Entry{Claim: store.Claim{ID: e.ID, Name: name, Demand: e.ask(), Ticket: e.ticket()}, State: state}
	e.Show(&p)
	s.mu.Lock()
	defer s.mu.Unlock()
	if own := s.claims[e.ID]; own != nil && own.Ticket == p.Ticket && state == store.Held && !own.granted.IsZero() {
		p.Since = own.granted
	}
	return p
}

// maxLeases bounds the number of sessions whose remaining time Queue reads.
const maxLeases = 4

// timesLeft has the remaining time of sessions. 0 means that it is not known.
type timesLeft struct {
	most int
	read map[int64]time.Duration // by lease
}

// readTimeLeft reads the remaining time of the sessions of holders. Without a response, an entry stays as it is.
func (s *Store) readTimeLeft(ctx context.Context, held []store.Entry, entries []entry, left *timesLeft) {
	for i := range held {
		lease := entries[i].kv.Lease
		d, known := left.read[lease]
		if !known && len(left.read) < left.most {
			read, err := s.etcd.leases.LeaseTimeToLive(ctx, &etcdserverpb.LeaseTimeToLiveRequest{ID: lease})
			if err == nil && read.TTL >= 0 {
				// Whole seconds, rounded down.
				d = min(time.Duration(read.TTL+1)*time.Second, held[i].TTL)
			}
			left.read[lease] = d
		}
		if d > 0 {
			held[i].Left = d
		}
	}
}

// Break implements store.Store.
func (s *Store) Break(ctx context.Context, name string, ticket uint64) error {
	call, err := s.frame.Begin(ctx, name, frame.AskTimeout)
	if err != nil {
		return err
	}
	defer call.End()
	return call.Outcome(s.breakClaim(call.Context, name, ticket))
}

func (s *Store) breakClaim(ctx context.Context, name string, ticket uint64) error {
	entries, _, err := s.readEntries(ctx, s.keys.readLine(name))
	if err != nil {
		return err
	}
	at := slices.IndexFunc(entries, func(e entry) bool { return e.ticket() == ticket })
	if at < 0 {
		return store.ErrNotHeld
	}
	response, unsure, err := s.etcd.commit(ctx, deletion(&position{Key: string(entries[at].kv.Key), Ticket: ticket}))
	if err == nil && !response.Succeeded && !unsure { // otherwise it was broken when it was first asked for
		return store.ErrNotHeld
	}
	return err
}

// Names implements store.Store. It reads keys in their order, and skips the rest of each queue that it has found.
func (s *Store) Names(ctx context.Context, prefix string) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		start := s.keys.queues + escaped.Escape(prefix)
		end := clientv3.GetPrefixRangeEnd(start)
		for start != "" {
			keys, err := s.readPage(ctx, start, end, clientv3.WithKeysOnly())
			if err != nil {
				yield("", err)
				return
			}
			last := ""
			for _, kv := range keys {
				name, ok := s.keys.name(string(kv.Key))
				if !ok || name == last || !strings.HasPrefix(name, prefix) {
					continue
				}
				if last = name; !yield(name, nil) {
					return
				}
			}
			if start = ""; len(keys) == pageSize {
				if start = string(keys[len(keys)-1].Key) + "\x00"; last != "" {
					start = max(start, clientv3.GetPrefixRangeEnd(s.keys.queue(last)))
				}
			}
		}
	}
}

// pageSize is how many keys Names and Queues read at a time.
const pageSize = 500

// readPage reads a page of keys: the first pageSize of a range.
func (s *Store) readPage(
	ctx context.Context, start, end string, options ...clientv3.OpOption,
) ([]*mvccpb.KeyValue, error) {
	if err := s.frame.Alive(ctx); err != nil {
		return nil, err
	}
	call := s.frame.Call(ctx, frame.AskTimeout)
	defer call.End()
	options = append(options, clientv3.WithRange(end), clientv3.WithLimit(pageSize))
	read, _, err := s.etcd.read(call.Context, clientv3.OpGet(start, options...))
	if err != nil {
		return nil, call.Outcome(err)
	}
	return read.kvs(0), nil
}
