package redisstore

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"sync"

	"github.com/holdfast-go/holdfast/internal/rediswire"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/frame"
)

// scanPage is about how many keys the server inspects for one page of Names.
const scanPage = 256

// linePage is how many entries of a queue are read with one call. Meanwhile the server serves no other client.
const linePage = 1000

// Queue implements store.Store. A long queue is read page by page, each at another time. So a claim that joins or
// leaves meanwhile may be missing or not, and a claim that waited when the first page was read is reported as waiting.
func (s *lines) Queue(ctx context.Context, name string) (store.Queue, error) {
	if err := s.frame.Check(ctx, name); err != nil {
		return store.Queue{Name: name}, err
	}
	places, count, err := s.readPage(ctx, name, 0)
	for page := places; err == nil && len(page) == linePage && len(places) < count; places = joinPages(places, page) {
		page, _, err = s.readPage(ctx, name, page[linePage-1].Ticket)
	}
	if err != nil {
		return store.Queue{Name: name}, err
	}
	return store.Queue{Name: name, Entries: places}, nil
}

// joinPages appends a page of a queue to those before it. All claims after a waiting one are waiting.
func joinPages(places, page []store.Entry) []store.Entry {
	if n := len(places); n > 0 && places[n-1].State == store.Waiting {
		for i := range page {
			page[i].State = store.Waiting
		}
	}
	return append(places, page...)
}

// readPage returns up to linePage entries after a ticket, and the number of all entries.
func (s *lines) readPage(ctx context.Context, name string, after uint64) (places []store.Entry, count int, err error) {
	call := s.frame.Call(ctx, frame.AskTimeout)
	defer call.End()
	line := s.keys.line(name)
	behind, most := strconv.FormatUint(after, 10), strconv.Itoa(linePage)
	answers, err := s.list(call.Context, s.topology.keysFor(line), []string{line}, behind, most)
	if err != nil {
		return nil, 0, call.Outcome(err)
	}
	return s.decodePage(name, line, answers[0])
}

// decodePage parses the reply of list.lua for a queue: entries, and the number of all entries.
func (s *lines) decodePage(name, line string, answer rediswire.Reply) (places []store.Entry, count int, err error) {
	if word, err := answer.Text(); err == nil {
		return nil, 0, s.refused(word, line)
	}
	texts, err := answer.List()
	if err != nil || len(texts) == 0 {
		return nil, 0, s.refused(fmt.Sprint(err), line)
	}
	n, err := texts[0].Number()
	if err != nil {
		return nil, 0, s.refused(err.Error(), line)
	}
	places = make([]store.Entry, len(texts)-1)
	for i := range places {
		text, err := texts[i+1].Text()
		words := words{rest: text}
		var ok bool
		if places[i], ok = words.place(name); !ok || err != nil {
			return nil, 0, s.refused("foreign", line)
		}
	}
	return places, int(n), nil
}

// Names implements store.Store. It reads the keys of the server page by page, in a cluster one master after the other.
// Then it inspects the queues, since a key may belong to a claim that has expired. It also returns the name of a key
// that cannot be parsed: Queue returns the reason.
//
// In a cluster, Names may miss a name whose slot is being moved and has not arrived when Names ends.
func (s *lines) Names(ctx context.Context, prefix string) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		err := s.eachPage(ctx, prefix, func(keys []string) error {
			names, err := s.living(ctx, keys)
			for i := 0; err == nil && i < len(names); i++ {
				if !yield(names[i], nil) {
					err = errStopped
				}
			}
			return err
		})
		if err != nil && !errors.Is(err, errStopped) {
			yield("", s.frame.Fault(ctx, err))
		}
	}
}

// errStopped ends Names and Queues when the caller stops the iteration.
var errStopped = errors.New("no more names are wanted")

// eachPage calls do with each page of keys that may be those of queues with this prefix, and with no name twice.
func (s *lines) eachPage(ctx context.Context, prefix string, do func(keys []string) error) error {
	if err := s.frame.Alive(ctx); err != nil {
		return err
	}
	seen := map[string]bool{} // a server may name a key twice, and a key may move from one to another
	return s.topology.each(ctx, func(n *node) error {
		for cursor, more := uint64(0), true; more; more = cursor != 0 {
			var keys []string
			var err error
			if keys, cursor, err = s.scanKeys(ctx, n, prefix, cursor); err != nil {
				return err
			}
			keys = slices.DeleteFunc(keys, func(key string) bool {
				name, ok := s.keys.name(key)
				known := seen[name]
				seen[name] = true
				return !ok || known
			})
			if err := do(keys); err != nil {
				return err
			}
		}
		return nil
	})
}

// scanKeys returns one page of keys that may be those of queues with this prefix.
func (s *lines) scanKeys(ctx context.Context, n *node, prefix string,
	cursor uint64) (keys []string, next uint64, err error) {
	if err := s.frame.Alive(ctx); err != nil {
		return nil, 0, err
	}
	call := s.frame.Call(ctx, frame.AskTimeout)
	defer call.End()
	w, err := n.commands.Get(call.Context)
	if err != nil {
		return nil, 0, call.Outcome(err)
	}
	match := s.keys.lines + escaped.Escape(prefix) + "*"
	next, keys, err = readScan(w.Do(call.Context, w.B().Scan().Cursor(cursor).Match(match).Count(scanPage).Build()))
	return keys, next, call.Outcome(err)
}

// readScan parses the reply to SCAN: the next cursor, which is 0 at the end, and some keys.
func readScan(reply rediswire.Reply) (next uint64, keys []string, err error) {
	page, err := reply.List()
	if err != nil {
		return 0, nil, err
	}
	if len(page) != 2 {
		return 0, nil, rediswire.ErrShape
	}
	text, err := page[0].Text()
	if err != nil {
		return 0, nil, err
	}
	if next, err = strconv.ParseUint(text, 10, 64); err != nil {
		return 0, nil, rediswire.ErrShape
	}
	keys, err = page[1].Texts()
	return next, keys, err
}

// living returns the names of these keys whose queues have a claim or cannot be parsed.
func (s *lines) living(ctx context.Context, keys []string) (names []string, err error) {
	answers, err := s.listAll(ctx, keys, "any")
	for i, answer := range answers {
		word, _ := answer.Text()
		if n, err := answer.Number(); err == nil && n == 1 || word == "newer" || word == "foreign" {
			name, _ := s.keys.name(keys[i])
			names = append(names, name)
		}
	}
	return names, err
}

// listAll is list for lines of any slots.
func (s *lines) listAll(ctx context.Context, lines []string, what ...string) ([]rediswire.Reply, error) {
	call := s.frame.Call(ctx, frame.AskTimeout)
	defer call.End()
	answers := make([]rediswire.Reply, len(lines))
	var mu sync.Mutex
	var err error
	s.inSlots(lines, func(at *slotKeys, places []int) {
		some, failed := s.list(call.Context, at, pick(lines, places), what...)
		mu.Lock()
		defer mu.Unlock()
		if failed != nil {
			err = failed
			return
		}
		for i, place := range places {
			answers[place] = some[i]
		}
	})
	if err != nil {
		return nil, call.Outcome(err)
	}
	return answers, nil
}

// list runs list.lua on queues of one slot.
func (s *lines) list(ctx context.Context, at *slotKeys, lines []string, what ...string) ([]rediswire.Reply, error) {
	keys := append(slices.Clone(lines), at.run)
	answer, try := s.runScript(ctx, listScript, at, false, func(w *connection) execution {
		return execution{Keys: keys, Args: append([]string{w.run, millis(s.guard)}, what...)}
	})
	if try.err != nil {
		return nil, try.err
	}
	if word, err := answer.Text(); err == nil { // of the run, not of a line
		return nil, s.refused(word, at.run)
	}
	answers, err := answer.List()
	if err == nil && len(answers) != len(lines) {
		err = fmt.Errorf("%w: %d lines, and %d were asked for", rediswire.ErrShape, len(answers), len(lines))
	}
	return answers, err
}
