package redisstore

import (
	"context"
	"fmt"
	"iter"
	"strconv"

	"github.com/redis/rueidis"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/frame"
)

// scanPage is about how many keys the server looks at for one page of Names.
const scanPage = 256

// linePage is how many places of a line are read at once. The server serves nobody else meanwhile.
const linePage = 1000

// Line implements store.Store. A long line is read page by page, and each page is of a moment of its own: who comes or
// leaves meanwhile may be shown or not, and who was waiting when the first page was read is shown as waiting.
func (s *Store) Line(ctx context.Context, name string) (store.Line, error) {
	line := store.Line{Name: name}
	if err := s.frame.Check(ctx, name); err != nil {
		return line, err
	}
	places, count, err := s.readPage(ctx, name, 0)
	for page := places; err == nil && len(page) == linePage && len(places) < count; places = joinPages(places, page) {
		page, _, err = s.readPage(ctx, name, page[linePage-1].Ticket)
	}
	if err != nil {
		return line, err
	}
	line.Places = places
	return line, nil
}

// joinPages appends a page of a line to those before it. Behind one who waited everybody did.
func joinPages(places, page []store.Place) []store.Place {
	if n := len(places); n > 0 && places[n-1].State == store.Waiting {
		for i := range page {
			page[i].State = store.Waiting
		}
	}
	return append(places, page...)
}

// readPage reads the places behind a ticket, up to linePage of them, and how many there are in all.
func (s *Store) readPage(ctx context.Context, name string, after uint64) (places []store.Place, count int, err error) {
	answers, err := s.list(ctx, []string{name}, strconv.FormatUint(after, 10), strconv.Itoa(linePage))
	if err != nil {
		return nil, 0, err
	}
	if answers[0].IsString() {
		word, _ := answers[0].ToString()
		return nil, 0, s.refused(word, name)
	}
	texts, err := answers[0].ToArray()
	if err != nil || len(texts) == 0 {
		return nil, 0, s.refused(fmt.Sprint(err), name)
	}
	n, err := texts[0].AsInt64()
	if err != nil {
		return nil, 0, s.refused(err.Error(), name)
	}
	places = make([]store.Place, len(texts)-1)
	for i := range places {
		text, err := texts[i+1].ToString()
		words := words{rest: text}
		var ok bool
		if places[i], ok = words.place(name); !ok || err != nil {
			return nil, 0, s.refused("foreign", name)
		}
	}
	return places, int(n), nil
}

// Names implements store.Store. The server gives its keys page by page, in a cluster one master after the other; those
// that are ours are looked at, as a key may be all that is left of a claim. A key that cannot be read is named too:
// Line says what is the matter with it.
//
// In a cluster a name may be missed whose slot is just being moved and has not arrived when Names ends.
func (s *Store) Names(ctx context.Context, prefix string) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		seen := map[string]bool{} // a server may name a key twice, and a key may move from one to another
		for n, err := range s.allNodes(ctx) {
			if err != nil {
				yield("", err)
				return
			}
			for name, err := range s.namesOf(ctx, n, prefix) {
				if err != nil && s.replaced(ctx, n) {
					break // whoever has its place comes next
				}
				if seen[name] && err == nil {
					continue
				}
				seen[name] = true
				if !yield(name, err) || err != nil {
					return
				}
			}
		}
	}
}

// allNodes are all that keep lines. A master that has got slots while others were gone through comes once more.
func (s *Store) allNodes(ctx context.Context) iter.Seq2[*node, error] {
	return func(yield func(*node, error) bool) {
		if s.cluster == nil {
			yield(s.home, nil)
			return
		}
		var done [slotCount]*node // who kept each slot when it was gone through
		for range mostMoves {
			if err := s.frame.Alive(ctx); err != nil {
				yield(nil, err)
				return
			}
			if err := s.cluster.refresh(ctx); err != nil {
				yield(nil, s.frame.Fault(ctx, err))
				return
			}
			changed := false
			for _, n := range s.cluster.masters(&done) {
				if changed = true; !yield(n, nil) {
					return
				}
			}
			if !changed {
				return
			}
		}
	}
}

// replaced says whether a node keeps nothing any more.
func (s *Store) replaced(ctx context.Context, n *node) bool {
	return s.cluster != nil && s.cluster.refresh(ctx) == nil && !s.cluster.has(n)
}

// namesOf are the names on one node. They end with the first error.
func (s *Store) namesOf(ctx context.Context, n *node, prefix string) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		for cursor, more := uint64(0), true; more; more = cursor != 0 {
			var names []string
			var err error
			if names, cursor, err = s.scan(ctx, n, prefix, cursor); err != nil {
				yield("", err)
				return
			}
			for _, name := range names {
				if !yield(name, nil) {
					return
				}
			}
		}
	}
}

// scan gives one page of names.
func (s *Store) scan(ctx context.Context, n *node, prefix string, cursor uint64) (names []string, next uint64, err error) {
	if err := s.frame.Alive(ctx); err != nil {
		return nil, 0, err
	}
	page, err := s.page(ctx, n, prefix, cursor)
	if err != nil {
		return nil, 0, err
	}
	for _, key := range page.Elements {
		if name, ok := s.keys.name(key); ok {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return nil, page.Cursor, nil
	}
	answers, err := s.list(ctx, names, "any")
	if err != nil {
		return nil, 0, err
	}
	living := names[:0]
	for i, name := range names {
		word, _ := answers[i].ToString()
		if n, err := answers[i].AsInt64(); err == nil && n == 1 || word == "newer" || word == "foreign" {
			living = append(living, name)
		}
	}
	return living, page.Cursor, nil
}

// page gives one page of keys.
func (s *Store) page(ctx context.Context, n *node, prefix string, cursor uint64) (page rueidis.ScanEntry, err error) {
	within, cancel := s.frame.Shared(ctx, frame.AskTimeout)
	defer cancel()
	w, err := n.commands.Get(within)
	if err != nil {
		return page, s.frame.Outcome(ctx, within, frame.AskTimeout, err)
	}
	answer := w.Do(within, w.Client.B().Scan().Cursor(cursor).Match(s.keys.lines+escaped.Escape(prefix)+"*").Count(scanPage).Build())
	if err := answer.Error(); err != nil && !rueidis.IsRedisNil(err) {
		return page, s.frame.Outcome(ctx, within, frame.AskTimeout, err)
	}
	if page, err = answer.AsScanEntry(); err != nil {
		return page, s.refused(err.Error(), prefix)
	}
	return page, nil
}

// list runs list.lua on the lines of some names.
func (s *Store) list(ctx context.Context, names []string, what ...string) ([]rueidis.RedisMessage, error) {
	if s.cluster == nil {
		return s.listOn(ctx, s.shelf, names, what...)
	}
	return s.listSpread(ctx, names, what...)
}

// listOn runs list.lua on lines of one slot.
func (s *Store) listOn(ctx context.Context, at *shelf, names []string, what ...string) ([]rueidis.RedisMessage, error) {
	keys := make([]string, 0, len(names)+1)
	for _, name := range names {
		keys = append(keys, s.keys.line(name))
	}
	keys = append(keys, at.run)
	answer, _, err := s.ask(ctx, frame.AskTimeout, at, nil, func(ctx context.Context, w *wire) rueidis.RedisResult {
		return listScript.Run(ctx, w, keys, append([]string{w.run, millis(s.guard)}, what...))
	})
	if err != nil {
		return nil, err
	}
	if word, err := answer.ToString(); err == nil { // of the run, not of a line
		return nil, s.refusedKey(word, at.run)
	}
	answers, err := answer.ToArray()
	if err == nil && len(answers) != len(names) {
		err = fmt.Errorf("%w: %d lines, and %d were asked for", errShape, len(answers), len(names))
	}
	if err != nil {
		return nil, s.frame.Fault(ctx, err)
	}
	return answers, nil
}
