package etcdstore

import (
	"context"
	"iter"
	"slices"
	"strings"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/client/v3"

	"github.com/holdfast-go/holdfast/line"
	"github.com/holdfast-go/holdfast/store"
)

// read reads a whole line, and says of which revision it is.
func (s *Store) read(ctx context.Context, name string) (entries []entry, revision int64, err error) {
	answer, _, err := s.commit(ctx, transaction{then: []clientv3.Op{clientv3.OpGet(s.keys.line(name), clientv3.WithPrefix())}})
	if err != nil {
		return nil, 0, err
	}
	entries, err = s.decodeLine(answer.Responses[0].GetResponseRange().Kvs)
	return entries, answer.Header.Revision, err
}

// Line implements store.Store.
func (s *Store) Line(ctx context.Context, name string) (store.Line, error) {
	l := store.Line{Name: name}
	if err := s.check(ctx, name); err != nil {
		return l, err
	}
	within, cancel := within(ctx, askTimeout)
	defer cancel()
	entries, _, err := s.read(within, name)
	if err != nil {
		return l, s.failed(ctx, within, askTimeout, err)
	}
	held := line.Held(func(yield func(store.Ask) bool) {
		for i := range entries {
			if !yield(entries[i].ask()) {
				return
			}
		}
	})
	for i := range entries {
		state := store.Waiting
		if i < held {
			state = store.Held
		}
		l.Places = append(l.Places, s.place(&entries[i], state))
	}
	s.askHowLong(within, l.Places[:held], entries)
	return l, nil
}

// place shows an entry. Times are those of the clients' clocks: etcd has none. Of claims of this client it is known here
// when they were granted; those of others say it when they have been held for a while. Left is the most that it can be.
func (s *Store) place(e *entry, state store.State) store.Place {
	name, _ := s.keys.name(string(e.kv.Key))
	p := store.Place{
		Claim: store.Claim{
			ID: e.ID, Name: name, Ask: e.ask(), Ticket: e.ticket(), TTL: time.Duration(e.TTL) * time.Millisecond,
			Turn: e.Turn, Owner: e.Owner, Waits: e.Waits,
		},
		State: state, Since: time.UnixMilli(e.Joined), Left: time.Duration(e.TTL) * time.Millisecond,
	}
	if state == store.Held && e.Granted != 0 {
		p.Since = time.UnixMilli(e.Granted)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if own := s.places[e.ID]; own != nil && own.ticket == p.Ticket && state == store.Held && !own.granted.IsZero() {
		p.Since = own.granted
	}
	return p
}

// askAbout is of how many holders Line asks how long they still have.
const askAbout = 4

// askHowLong asks how long the sessions of the first holders still have. What is not answered stays as it is.
func (s *Store) askHowLong(ctx context.Context, held []store.Place, entries []entry) {
	left := map[int64]time.Duration{}
	for i := range held {
		lease := entries[i].kv.Lease
		d, asked := left[lease]
		if !asked && len(left) < askAbout {
			answer, err := s.leases.LeaseTimeToLive(ctx, &etcdserverpb.LeaseTimeToLiveRequest{ID: lease})
			if err == nil && answer.TTL >= 0 {
				// Whole seconds, rounded down.
				d = min(time.Duration(answer.TTL+1)*time.Second, held[i].TTL)
			}
			left[lease] = d
		}
		if d > 0 {
			held[i].Left = d
		}
	}
}

// Break implements store.Store.
func (s *Store) Break(ctx context.Context, name string, ticket uint64) error {
	if err := s.check(ctx, name); err != nil {
		return err
	}
	within, cancel := within(ctx, askTimeout)
	defer cancel()
	entries, _, err := s.read(within, name)
	if err != nil {
		return s.failed(ctx, within, askTimeout, err)
	}
	at := slices.IndexFunc(entries, func(e entry) bool { return e.ticket() == ticket })
	if at < 0 {
		return store.ErrNotHeld
	}
	d := debt{key: string(entries[at].kv.Key), ticket: ticket}
	answer, unsure, err := s.commit(within, transaction{when: []clientv3.Cmp{d.stands()}, then: []clientv3.Op{clientv3.OpDelete(d.key)}})
	switch {
	case err != nil:
		return s.failed(ctx, within, askTimeout, err)
	case !answer.Succeeded && !unsure: // otherwise it was broken when it was first asked for
		return store.ErrNotHeld
	}
	return nil
}

// namesPage is how many keys Names reads at a time.
const namesPage = 500

// Names implements store.Store. It reads keys in their order, and skips the rest of a line that it has seen.
func (s *Store) Names(ctx context.Context, prefix string) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		start := s.keys.lines + escaped.Escape(prefix)
		end := clientv3.GetPrefixRangeEnd(start)
		for start != "" {
			keys, err := s.keysFrom(ctx, start, end)
			if err != nil {
				yield("", err)
				return
			}
			last := ""
			for _, key := range keys {
				name, ok := s.keys.name(key)
				if !ok || name == last || !strings.HasPrefix(name, prefix) {
					continue
				}
				if last = name; !yield(name, nil) {
					return
				}
			}
			if start = ""; len(keys) == namesPage {
				if start = keys[len(keys)-1] + "\x00"; last != "" {
					start = max(start, clientv3.GetPrefixRangeEnd(s.keys.line(last)))
				}
			}
		}
	}
}

// keysFrom reads a page of keys.
func (s *Store) keysFrom(ctx context.Context, start, end string) ([]string, error) {
	if err := s.alive(ctx); err != nil {
		return nil, err
	}
	within, cancel := within(ctx, askTimeout)
	defer cancel()
	answer, _, err := s.commit(within, transaction{then: []clientv3.Op{
		clientv3.OpGet(start, clientv3.WithRange(end), clientv3.WithKeysOnly(), clientv3.WithLimit(namesPage)),
	}})
	if err != nil {
		return nil, s.failed(ctx, within, askTimeout, err)
	}
	kvs := answer.Responses[0].GetResponseRange().Kvs
	keys := make([]string, len(kvs))
	for i, kv := range kvs {
		keys[i] = string(kv.Key)
	}
	return keys, nil
}
