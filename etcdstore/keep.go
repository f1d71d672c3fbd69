package etcdstore

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"go.etcd.io/etcd/client/v3"

	"github.com/holdfast-go/holdfast/store"
)

// Keep implements store.Store. It asks etcd itself about each claim rather than believe the watches: one of those may lag
// behind while the session beats, and must not extend a claim that somebody has broken. It writes only what has changed.
func (s *Store) Keep(ctx context.Context, cs []store.Claim) ([]store.Standing, error) {
	if err := s.alive(ctx); err != nil || len(cs) == 0 {
		return nil, err
	}
	limit := slices.MinFunc(cs, func(a, b store.Claim) int { return cmp.Compare(a.TTL, b.TTL) }).TTL
	within, cancel := within(ctx, limit)
	defer cancel()
	standings := make([]store.Standing, len(cs))
	bad := 0
	for i := range cs {
		if standings[i].Err = store.CheckName(cs[i].Name); standings[i].Err != nil {
			bad++
		}
	}
	if bad == len(cs) {
		return standings, nil
	}
	beat := s.beats.ask()
	err := s.keep(within, cs, standings)
	if err == nil {
		err = beat.await(within)
	}
	if err != nil {
		return nil, s.failed(ctx, within, limit, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range cs {
		p := s.places[cs[i].ID]
		switch {
		case standings[i].Err != nil:
		case p == nil || p.name != cs[i].Name:
			standings[i] = store.Standing{}
		case p.unknown != nil:
			standings[i].Err = p.unknown
		default:
			standings[i] = p.session.standing(p.state, p.ticket, -1)
		}
	}
	return standings, nil
}

// keep tells etcd the news of these claims, and looks at them.
func (s *Store) keep(ctx context.Context, cs []store.Claim, standings []store.Standing) error {
	var known []*place
	var strange []int // claims that are not known here
	var news []saying
	s.mu.Lock()
	for i := range cs {
		c := &cs[i]
		p := s.places[c.ID]
		if standings[i].Err != nil {
			continue
		}
		if p == nil || p.name != c.Name {
			strange = append(strange, i)
		} else {
			known = append(known, p)
			if r := p.news(c); r.encode() != p.said {
				news = append(news, saying{p, r, p.mod})
			}
		}
	}
	s.mu.Unlock()
	// A database that is full takes no news, and renews all the same.
	if err := s.say(ctx, news); err != nil && !errors.Is(err, rpctypes.ErrNoSpace) {
		return err
	}
	if err := s.look(ctx, known); err != nil {
		return err
	}
	for batch := range slices.Chunk(strange, lookBatch) {
		if err := s.lookAtStrangers(ctx, cs, standings, batch); err != nil {
			return err
		}
	}
	return nil
}

// A saying is what a claim's key is to say from now on.
type saying struct {
	*place
	record
	over int64 // the revision of what it says so far
}

// say writes what has changed. Each is written over what is known to be there and nothing else: a Keep that was sent long
// ago and lands late must not undo a downgrade.
func (s *Store) say(ctx context.Context, news []saying) error {
	for range lookDeep {
		var overtaken []saying
		for len(news) > 0 {
			n := sayable(news)
			again, err := s.sayOnce(ctx, news[:n])
			if err != nil {
				return err
			}
			overtaken = append(overtaken, again...)
			news = news[n:]
		}
		if news = overtaken; len(news) == 0 {
			return nil
		}
	}
	return nil // the next Keep says it
}

// maxSaid is how much is written at once. etcd takes requests of one and a half megabytes.
const maxSaid = 1 << 20

// sayable is how many of these can be written at once.
func sayable(news []saying) (n int) {
	for size := 0; n < min(len(news), lookBatch); n++ {
		if size += len(news[n].key) + len(news[n].encode()); size > maxSaid && n > 0 {
			break
		}
	}
	return n
}

// sayOnce writes one batch. It returns what has to be written once more, over what landed in the meantime.
func (s *Store) sayOnce(ctx context.Context, news []saying) (overtaken []saying, err error) {
	ops := make([]clientv3.Op, len(news))
	for i, n := range news {
		ops[i] = clientv3.OpTxn(
			[]clientv3.Cmp{clientv3.Compare(clientv3.ModRevision(n.key), "=", n.over)},
			[]clientv3.Op{clientv3.OpPut(n.key, n.encode(), clientv3.WithIgnoreLease())},
			[]clientv3.Op{clientv3.OpGet(n.key)},
		)
	}
	answer, _, err := s.commit(ctx, transaction{then: ops})
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.unlock()
	for i, n := range news {
		one := answer.Responses[i].GetResponseTxn()
		if one.Succeeded {
			s.said(n.place, &n.record, answer.Header.Revision)
			continue
		}
		kvs := one.Responses[0].GetResponseRange().Kvs
		if len(kvs) == 0 || kvs[0].CreateRevision != int64(n.ticket) { //nolint:gosec // a revision
			continue // it is gone, and a look will show it
		}
		if landed, err := decode(kvs[0].Value); err == nil { // one that was thought lost
			s.said(n.place, &landed, kvs[0].ModRevision)
			n.Units, n.over = min(n.Units, landed.Units), kvs[0].ModRevision
			overtaken = append(overtaken, n)
		}
	}
	return overtaken, nil
}

// said notes what p's key says since a revision.
func (s *Store) said(p *place, r *record, revision int64) {
	if revision <= p.mod {
		return
	}
	p.mod, p.said = revision, r.encode()
	if r.Units < p.ask.Units {
		p.ask.Units = r.Units
		p.moved = true // others may block it now
		s.unwatchAhead(p)
	}
}

// lookAtStrangers is for claims that are not known here, whatever they are: they are gone. But a line in a newer format is
// not judged.
func (s *Store) lookAtStrangers(ctx context.Context, cs []store.Claim, standings []store.Standing, strange []int) error {
	ops := make([]clientv3.Op, len(strange))
	for i, at := range strange {
		ops[i] = clientv3.OpGet(s.keys.line(cs[at].Name), clientv3.WithPrefix(), clientv3.WithLimit(1))
	}
	answer, _, err := s.commit(ctx, transaction{then: ops})
	if err != nil {
		return err
	}
	for i, at := range strange {
		_, standings[at].Err = s.decodeLine(answer.Responses[i].GetResponseRange().Kvs)
	}
	return nil
}
