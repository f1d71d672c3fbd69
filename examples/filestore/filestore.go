//go:build unix

// Package filestore is a store in 300 lines, to be read and copied. docs/writing-a-store.md walks through it. It keeps
// its lines in files of a directory, for the processes of one machine, and changes them under a lock of the kernel's.
// Its clock is the machine's wall clock: if that is set forward while a lock is held, the lock expires early.
package filestore

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/frame"
	"github.com/holdfast-go/holdfast/store/grant"
)

const format = 1                        // the version of what is written
const pollEvery = 20 * time.Millisecond // how often a claim that waits asks, since nothing is pushed

// A client is a store.Store. Tests put a change in place of changeFile that is delayed or cut off.
type client struct {
	*frame.Frame
	dir, tenant string
	abilities   store.Abilities
	change      func(ctx context.Context, key string, do func(*queue) error) error
}

func init() { store.Register("file", open) }

func open(ctx context.Context, at store.Location) (store.Store, error) {
	if err := at.Allow(); err != nil {
		return nil, err
	}
	if len(at.Hosts) > 0 || at.User != nil || at.Path == "" {
		return nil, errors.New("a file store has a directory and nothing else: write file:/PATH")
	}
	s := &client{dir: at.Path, tenant: at.Prefix + "\x00"} // NUL is in no prefix, nor in a name
	s.Frame = frame.New(frame.Config{Name: "file " + at.Path, Drift: frame.OneClock, PushesWithCalls: true})
	s.change = s.changeFile
	q, err := s.request(ctx, s.tenant, frame.AskTimeout, s.list) // which removes what the dead have left
	if err != nil {
		return nil, err
	}
	s.abilities = store.Abilities{
		Store: s.Name, Identity: q.shared.ID + "/" + at.Prefix, Queue: true, Shared: true, Grace: true,
		MinTTL: 10 * pollEvery, MaxTTL: 7 * 24 * time.Hour, TakeoverTTLs: 1, TakeoverPlus: 5 * pollEvery,
		Tokens: store.SurvivesRestart | store.SurvivesClockBack,
	}
	return s, nil
}

// update is an operation on the queue of a name. It returns the queue, or an empty one if it failed.
func (s *client) update(ctx context.Context, name string, limit time.Duration, do func(*queue) error) (*queue, error) {
	if err := s.Check(ctx, name); err != nil {
		return &queue{}, err
	}
	return s.request(ctx, s.tenant+name, limit, do)
}

// request is update without a check. The queue of no name is always empty: it is for what concerns all names.
func (s *client) request(ctx context.Context, key string, limit time.Duration, do func(*queue) error) (*queue, error) {
	call := s.Call(ctx, limit)
	defer call.End()
	var q *queue
	err := s.change(call.Context, key, func(found *queue) error { q = found; return do(q) })
	if err := call.Outcome(err); err != nil {
		return &queue{}, err // and not q: the request may still be under way
	}
	q.call = &call
	return q, nil
}

func (s *client) Join(ctx context.Context, c store.Claim) (store.Status, error) {
	q, err := s.update(ctx, c.Name, c.TTL, func(q *queue) error { return q.join(&c) })
	return q.standing(&c), err
}

func (s *client) Keep(ctx context.Context, cs []store.Claim) ([]store.Status, error) {
	standings := make([]store.Status, len(cs))
	for i, c := range cs {
		q, err := s.update(ctx, c.Name, c.TTL, func(q *queue) error { q.keep(&c); return nil })
		if err != nil && !errors.Is(err, store.ErrFormat) { // which concerns this line only
			return nil, err
		}
		standings[i] = q.standing(&c)
		standings[i].Err = err
	}
	return standings, nil
}

func (s *client) Leave(ctx context.Context, c store.Claim) error {
	_, err := s.update(ctx, c.Name, c.TTL, func(q *queue) error {
		q.Places = slices.DeleteFunc(q.Places, func(p place) bool { return p.ID == c.ID })
		if c.Ticket == 0 {
			q.Tombstones[c.ID] = q.now.Add(c.TTL)
		}
		return nil
	})
	return err
}

func (s *client) Break(ctx context.Context, name string, ticket uint64) error {
	_, err := s.update(ctx, name, frame.AskTimeout, func(q *queue) error {
		i := slices.IndexFunc(q.Places, func(p place) bool { return p.Ticket == ticket })
		if i < 0 {
			return store.ErrNotHeld
		}
		q.Places = slices.Delete(q.Places, i, i+1)
		return nil
	})
	return err
}

func (s *client) Queue(ctx context.Context, name string) (store.Queue, error) {
	q, err := s.update(ctx, name, frame.AskTimeout, func(*queue) error { return nil })
	l := store.Queue{Name: name}
	for _, p := range q.Places {
		p.Left = p.Deadline.Sub(q.now)
		l.Entries = append(l.Entries, p.Entry)
	}
	return l, err
}

func (s *client) Names(ctx context.Context, prefix string) iter.Seq2[string, error] {
	return s.Frame.Names(ctx, func(ctx context.Context) (names []string, err error) {
		q, err := s.request(ctx, s.tenant, frame.AskTimeout, s.list)
		for _, key := range q.keys {
			if strings.HasPrefix(key, s.tenant+prefix) {
				names = append(names, key[len(s.tenant):])
			}
		}
		return names, err
	})
}

func (s *client) Abilities() store.Abilities { return s.abilities }
func (s *client) Close() error               { s.Shut(); s.End(); return nil }

type queue struct { // the line of one name, which is in one file
	Format     int
	Key        string                 // tenant and name
	Places     []place                // in order of arrival
	Tombstones map[store.ID]time.Time // claims that left before they joined, and until when that counts (rule 8)
	shared     struct {               // by all queues, in a file of its own, whose key has no tenant
		ID      string // random
		Highest uint64 // ticket
	}
	now  time.Time
	call *frame.Call
	keys []string // of all queues, if they were listed
}

type place struct {
	store.Entry
	Deadline time.Time
}

// settle removes what is out (rule 4), and grants what then fits.
func (q *queue) settle() {
	q.Places = slices.DeleteFunc(q.Places, func(p place) bool { return !p.Deadline.After(q.now) })
	maps.DeleteFunc(q.Tombstones, func(_ store.ID, until time.Time) bool { return !until.After(q.now) })
	var prefix grant.Prefix
	for i := 0; i < len(q.Places) && prefix.Admit(q.Places[i].Demand); i++ {
		if p := &q.Places[i]; p.State == store.Waiting {
			p.State, p.Since = store.Held, q.now
		}
	}
}

// join follows the steps of store.Store.Join. The ticket is drawn together with the place (rule 2).
func (q *queue) join(c *store.Claim) error {
	_, left := q.Tombstones[c.ID]
	switch {
	case left || q.keep(c):
		return nil
	case c.Floor > q.shared.Highest && store.FloorTooHigh(c.Floor, q.now):
		return store.ErrFloor
	case len(q.Places) > 0 && grant.Mismatch(q.Places[0].Demand, c.Demand, c.AnyLimit):
		return &store.MismatchError{InUse: q.Places[0].Demand}
	}
	last := len(q.Places)
	p := store.Entry{Claim: *c, State: store.Waiting, Since: q.now}
	q.Places = append(q.Places, place{p, q.now.Add(c.TTL + c.Grace)})
	q.settle()
	if c.Try && q.Places[last].State == store.Waiting {
		q.Places = q.Places[:last]
	} else {
		q.shared.Highest = max(q.shared.Highest, c.Floor, uint64(q.now.UnixMicro())) + 1
		q.Places[last].Ticket = q.shared.Highest
	}
	return nil
}

// keep prolongs a claim, if it stands. Its units only ever get fewer (rule 6).
func (q *queue) keep(c *store.Claim) bool {
	i := slices.IndexFunc(q.Places, func(p place) bool { return p.ID == c.ID })
	if i >= 0 {
		p := &q.Places[i]
		p.Units, p.Turn, p.Owner, p.Waits = min(p.Units, c.Units), c.Turn, c.Owner, c.Waits
		p.Deadline = q.now.Add(c.TTL + c.Grace)
	}
	return i >= 0
}

func (q *queue) standing(c *store.Claim) (s store.Status) {
	if i := slices.IndexFunc(q.Places, func(p place) bool { return p.ID == c.ID }); i >= 0 {
		s = store.Status{State: q.Places[i].State, Ticket: q.Places[i].Ticket, Ahead: i}
		s.Until = q.call.Until(s.State, c.TTL)
		if s.State == store.Waiting {
			s.RecheckAt = time.Now().Add(pollEvery)
		}
	}
	return s
}

// changeFile runs do on the queue under a key while no other client can, and writes what came of it.
func (s *client) changeFile(ctx context.Context, key string, do func(*queue) error) error {
	lock, err := os.OpenFile(filepath.Join(s.dir, "lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	defer lock.Close() // which unlocks it
	try := func() error { return syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) }
	for err = try(); errors.Is(err, syscall.EWOULDBLOCK) && ctx.Err() == nil; err = try() {
		time.Sleep(time.Millisecond)
	}
	q := &queue{Format: format, Key: key, Tombstones: map[store.ID]time.Time{}, now: time.Now()}
	err = errors.Join(err, read(s.path("shared"), &q.shared), read(s.path(key), q))
	before := q.shared
	q.shared.ID = cmp.Or(q.shared.ID, rand.Text())
	if err == nil && q.Format != format {
		err = store.ErrFormat
	}
	if q.settle(); err == nil {
		err = do(q)
	}
	if err == nil && q.shared != before {
		err = write(s.path("shared"), &q.shared) // first, so that no ticket is given twice
	}
	if q.settle(); err == nil && len(q.Places)+len(q.Tombstones) == 0 {
		return os.RemoveAll(s.path(key))
	}
	if err == nil {
		err = write(s.path(key), q)
	}
	return err
}

func (s *client) path(key string) string {
	return s.dir + fmt.Sprintf("/%x.json", sha256.Sum256([]byte(key)))
}

// list notes the keys of all queues, and removes the files of those in which nothing is left (rule 9).
func (s *client) list(q *queue) error {
	files, err := os.ReadDir(s.dir)
	for _, f := range files {
		path, other := filepath.Join(s.dir, f.Name()), &queue{now: q.now}
		ours := filepath.Ext(path) == ".json" && read(path, other) == nil
		if other.settle(); ours && (len(other.Places) > 0 || other.Format > format) {
			q.keys = append(q.keys, other.Key)
		} else if ours && len(other.Tombstones) == 0 && other.Format == format {
			err = errors.Join(err, os.Remove(path))
		}
	}
	return err
}

func read(path string, into any) error {
	text, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(text, into)
	} else if errors.Is(err, os.ErrNotExist) {
		err = nil
	}
	return err
}

func write(path string, from any) error {
	text, err := json.Marshal(from)
	if err == nil {
		err = os.WriteFile(path+".new", text, 0o600)
	}
	if err == nil {
		err = os.Rename(path+".new", path) // at once: what is there is always whole
	}
	return err
}
