package redisstore

import (
	"context"
	"fmt"
	"iter"

	"github.com/redis/rueidis"

	"github.com/holdfast-go/holdfast/store"
)

// scanPage is about how many keys the server looks at for one page of Names.
const scanPage = 256

// Line implements store.Store.
func (s *Store) Line(ctx context.Context, name string) (store.Line, error) {
	line := store.Line{Name: name}
	if err := s.check(ctx, name); err != nil {
		return line, err
	}
	answers, err := s.list(ctx, []string{name}, "all")
	if err != nil {
		return line, err
	}
	if answers[0].IsString() {
		word, _ := answers[0].ToString()
		return line, s.refused(word, name)
	}
	texts, err := answers[0].AsStrSlice()
	if err != nil {
		return line, s.refused(err.Error(), name)
	}
	line.Places = make([]store.Place, len(texts))
	for i, text := range texts {
		var ok bool
		words := words{rest: text}
		if line.Places[i], ok = words.place(name); !ok {
			return store.Line{Name: name}, s.refused(text, name)
		}
	}
	return line, nil
}

// Names implements store.Store. The server gives its keys page by page; those that are ours are looked at, as a key may
// be all that is left of a claim.
func (s *Store) Names(ctx context.Context, prefix string) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		seen := map[string]bool{} // the server may name a key twice
		for cursor, more := uint64(0), true; more; more = cursor != 0 {
			var names []string
			var err error
			if names, cursor, err = s.scan(ctx, prefix, cursor); err != nil {
				yield("", err)
				return
			}
			for _, name := range names {
				if seen[name] {
					continue
				}
				seen[name] = true
				if !yield(name, nil) {
					return
				}
			}
		}
	}
}

// scan gives one page of names.
func (s *Store) scan(ctx context.Context, prefix string, cursor uint64) (names []string, next uint64, err error) {
	if err := s.alive(ctx); err != nil {
		return nil, 0, err
	}
	answer, _, err := s.ask(ctx, askTimeout, func(ctx context.Context, w *wire) rueidis.RedisResult {
		return w.do(ctx, w.client.B().Scan().Cursor(cursor).Match(s.keys.lines+escaped.Escape(prefix)+"*").Count(scanPage).Build())
	})
	if err != nil {
		return nil, 0, err
	}
	page, err := answer.AsScanEntry()
	if err != nil {
		return nil, 0, s.refused(err.Error(), prefix)
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
		if n, err := answers[i].AsInt64(); err == nil && n == 1 || word == "newer" {
			living = append(living, name)
		}
	}
	return living, page.Cursor, nil
}

// list runs list.lua on the lines of some names.
func (s *Store) list(ctx context.Context, names []string, what string) ([]rueidis.RedisMessage, error) {
	keys := make([]string, 0, len(names)+1)
	for _, name := range names {
		keys = append(keys, s.keys.line(name))
	}
	keys = append(keys, s.keys.run)
	answer, _, err := s.ask(ctx, askTimeout, func(ctx context.Context, w *wire) rueidis.RedisResult {
		return listScript.run(ctx, w, keys, []string{w.run, millis(s.guard), what})
	})
	if err != nil {
		return nil, err
	}
	if word, err := answer.ToString(); err == nil { // of the run, not of a line
		return nil, s.refusedKey(word, s.keys.run)
	}
	answers, err := answer.ToArray()
	if err == nil && len(answers) != len(names) {
		err = fmt.Errorf("%w: %d lines, and %d were asked for", errShape, len(answers), len(names))
	}
	if err != nil {
		return nil, s.fault(ctx, err)
	}
	return answers, nil
}
