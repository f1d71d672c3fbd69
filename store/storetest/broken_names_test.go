package storetest_test

import (
	"context"
	"iter"
	"net/url"
	"path"
	"strings"

	"github.com/holdfast-go/holdfast/store"
)

// renames makes the store use other names than it is given.
func renames(b *bug, rename func(string) string) {
	b.sends = func(c *store.Claim) { c.Name = rename(c.Name) }
	b.breaks = func(ctx context.Context, name string, ticket uint64) error {
		return b.Store.Break(ctx, rename(name), ticket)
	}
	b.line = func(ctx context.Context, name string) (store.Queue, error) {
		line, err := b.Store.Queue(ctx, rename(name))
		line.Name = name
		return line, err
	}
}

// lists makes the store list other names than it has. The filter sees them as well.
func lists(b *bug, show func(name string) (string, bool)) {
	b.names = func(ctx context.Context, prefix string) iter.Seq2[string, error] {
		return func(yield func(string, error) bool) {
			for name, err := range b.Store.Names(ctx, "") {
				shown, ok := show(name)
				if (err != nil || ok && strings.HasPrefix(shown, prefix)) && !yield(shown, err) {
					return
				}
			}
		}
	}
}

// renamed is a mutant whose names lose something.
func renamed(name string, rename func(string) string) mutant {
	return mutant{name, 10, "names/odd names", nil, eachStore(func(b *bug) { renames(b, rename) })}
}

var brokenNames = []mutant{
	renamed("names lose their case", strings.ToLower),
	renamed("names lose their spaces", strings.TrimSpace),
	renamed("names lose their form", func(name string) string { return strings.ReplaceAll(name, "e\u0301", "é") }),
	renamed("names are paths", path.Clean),
	renamed("names lose their end", func(name string) string { return name[:min(len(name), 255)] }),
	{"names are listed as they are stored", 10, "names/listed", nil, eachStore(func(b *bug) {
		lists(b,
			func(name string) (string, bool) { return strings.ReplaceAll(url.QueryEscape(name), "%2F", "/"), true })
	})},
	{"a filter is a pattern", 10, "names/filtered", nil, eachStore(func(b *bug) {
		b.names = func(ctx context.Context, prefix string) iter.Seq2[string, error] {
			return func(yield func(string, error) bool) {
				for name, err := range b.Store.Names(ctx, "") {
					match, _ := path.Match(prefix+"*", strings.ReplaceAll(name, "/", ":"))
					if (err != nil || match) && !yield(name, err) {
						return
					}
				}
			}
		}
	})},
	{"bad names are repaired", 10, "names/bad names", nil, eachStore(func(b *bug) {
		renames(b, func(name string) string {
			if store.CheckName(name) == nil {
				return name
			}
			name = strings.ReplaceAll(strings.ToValidUTF8(name, "?"), "\x00", "0")
			return "n" + name[:min(len(name), store.MaxName)]
		})
	})},
	{"tenants share", 10, "names/tenants", []int{0}, func(h *broken) {
		h.prefix = func(string) string { return "" }
	}},
	{"prefix and name are one", 10, "names/prefixes that run together", []int{0}, func(h *broken) {
		h.prefix = func(string) string { return "" }
		h.bug = func(b *bug) {
			renames(b, func(name string) string { return b.prefix + name })
			lists(b, func(name string) (string, bool) { return strings.CutPrefix(name, b.prefix) })
		}
	}},
}
