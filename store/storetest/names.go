package storetest

import (
	"fmt"
	"slices"
	"strings"

	"github.com/holdfast-go/holdfast/store"
)

var names = rule{10, "names", "Any name that CheckName accepts works exactly; anything else is ErrBadName at once; " +
	"stores with different prefixes never see each other.", []scenario{
	{"odd names", 0, oddNamesAreDistinct},
	{"listed", aQueue, oddNamesAreListed},
	{"filtered", aQueue, namesAreFiltered},
	{"bad names", 0, badNamesAreRefused},
	{"queues listed", aQueue, queuesAreListed},
	{"queues filtered", aQueue, listIsFiltered},
	{"tenants", 0, tenantsAreApart},
	{"prefixes that run together", 0, prefixesThatRunTogether},
}}

// oddNames are pairwise different, and each differs from another one by what a careless store drops, adds, folds or
// interprets.
var oddNames = []string{
	// space, and what is invisible
	"a", " a", "a ", " ", "  ", "\t", "\n", "a\n", "a\nb", "a\r\nb", "a b",
	"\u00a0", "\u200b", "a\u200b", "\ufeffa", "\x01", "\x7f",
	// case and its folding
	"A", "ab", "AB", "aB", "i", "I", "ı", "İ", "k", "K", "\u212a", "ss", "SS", "ß", "ẞ", "s", "ſ",
	// forms of the same letter
	"é", "e\u0301", "e", "E", "Å", "\u212b", "A\u030a", "ﬁ", "fi", "①", "1", "１", "日本語", "ｱ", "ア",
	// beyond sixteen bits
	"🔒", "🔓", "👩‍👧", "👩", "\U0010ffff", "\U0001d11e",
	// paths
	"/", "//", "/a", "a/", "a/b", "a//b", ".", "..", "../a", "a/../b", "a.b", `\`, `a\b`, "a:b", ":", "C:",
	// patterns and slots
	"*", "a*", "?", "[a]", "[^a]", "%", "a%", "_", "a_", "{a}", "{a", "a}", "{}", "{b}a", "^a$",
	// quotes, escapes and statements
	"'", "''", `"`, `"a"`, "`a`", "a'b", "'; DROP TABLE claims; --", "--", "/*", "%s", "%00", "%2F", `\n`, `\x00`,
	"$1", "${a}", "$(a)", "<a>", "&amp;", "#a", "a#b", "a=b", "a&b", "a,b", "a;b", "+", "a+b", "a|b", "\x1b[31m",
	// words with a meaning
	"null", "nil", "true", "0", "00", "-1", "1e3", "lock", "locks", "line", "ticket",
	// prefixes of others
	"abc", "abcd",
	strings.Repeat("x", 255), strings.Repeat("x", 256),
	strings.Repeat("x", store.MaxName-1), strings.Repeat("x", store.MaxName),
	strings.Repeat("x", store.MaxName-1) + "y",
	strings.Repeat("🔒", store.MaxName/4), strings.Repeat("🔒", store.MaxName/4-1) + "🔓",
}

// oddNamesWith returns the odd names that begin with prefix, sorted.
func oddNamesWith(prefix string) []string {
	names := slices.Sorted(slices.Values(oddNames))
	return slices.DeleteFunc(names, func(name string) bool { return !strings.HasPrefix(name, prefix) })
}

// holdOddNames claims all odd names at once, under a prefix of its own.
func holdOddNames(t *trial) (*client, []*contender) {
	c := t.openAt(t.mark)
	claims := make([]*contender, len(oddNames))
	for i, name := range oddNames {
		claims[i] = c.mutex(name)
		claims[i].claim.TTL = t.longTTL()
		claims[i].try(store.Held)
	}
	return c, claims
}

func oddNamesAreDistinct(t *trial) {
	c, claims := holdOddNames(t)
	for _, p := range claims {
		p.keep(store.Held)
		c.mutex(p.claim.Name).try(store.Gone)
	}
	for _, p := range claims {
		p.leave()
		c.mutex(p.claim.Name).try(store.Held)
	}
}

func oddNamesAreListed(t *trial) {
	c, claims := holdOddNames(t)
	want := oddNamesWith("")
	if got := c.list(""); !slices.Equal(got, want) {
		t.errorf("Names yields %q, want %q", got, want)
	}
	for _, p := range claims {
		entries := c.entries(p.claim.Name)
		if len(entries) != 1 || entries[0].ID != p.claim.ID || entries[0].Name != p.claim.Name {
			t.errorf("the queue of %q is %+v, want one claim of that name", p.claim.Name, entries)
		}
		p.leave()
	}
	if got := c.list(""); len(got) > 0 {
		t.errorf("Names yields %q when there are no claims", got)
	}
}

// A filter is a prefix, never a pattern.
func namesAreFiltered(t *trial) {
	c, claims := holdOddNames(t)
	for _, prefix := range []string{
		"a", "A", "a/", "*", "a*", "?", "[a]", "%", "_", "a_", "{", `\`, "'", " ", "x", "🔒", "nobody",
	} {
		want := oddNamesWith(prefix)
		if got := c.list(prefix); !slices.Equal(got, want) {
			t.errorf("Names(%q) gives %q, want %q", prefix, got, want)
		}
	}
	ctx, cancel := t.context()
	defer cancel()
	for range c.Names(ctx, "") {
		break // the caller may stop early
	}
	for _, p := range claims {
		p.leave()
	}
}

// The link is cut, so that nothing can be sent: a bad name is refused locally.
func badNamesAreRefused(t *trial) {
	c := t.open()
	c.link.Cut()
	for _, name := range []string{
		"", "\x00", "a\x00", "a\x00b", "\xff", "a\xc3", "\xed\xa0\x80", // the last is half of a pair
		strings.Repeat("x", store.MaxName+1), strings.Repeat("🔒", store.MaxName/4) + "x",
	} {
		c.mutex(name).isRefused(store.ErrBadName, fmt.Sprintf("with the name %.20q", name))
	}
}

func tenantsAreApart(t *trial) {
	tenants := []*client{t.openAt(t.mark + "one/"), t.openAt(t.mark + "two/"), t.openAt(t.mark + "%/"), t.open()}
	name := t.name("shared")
	claims := make([]*contender, len(tenants))
	for i, c := range tenants {
		claims[i] = c.mutex(name).lasts()
		claims[i].try(store.Held)
	}
	for i, p := range claims {
		p.keep(store.Held)
		if t.able.Queue {
			if got := tenants[i].list(t.mark); !slices.Equal(got, []string{name}) {
				t.errorf("a tenant sees the names %q, want %q", got, name)
			}
			if entries := tenants[i].entries(name); len(entries) != 1 || entries[0].ID != p.claim.ID ||
				entries[0].Name != name {
				t.errorf("a tenant sees the queue %+v, want its own claim", entries)
			}
		}
		p.leave()
	}
}

// Two different prefixes, each with a name, whose concatenations are equal.
func prefixesThatRunTogether(t *trial) {
	short, long, none := t.openAt(t.mark), t.openAt(t.mark+"a"), t.open()
	short.mutex("ab").lasts().try(store.Held)
	long.mutex("b").lasts().try(store.Held)
	none.mutex(t.mark + "ab").lasts().try(store.Held)
	if !t.able.Queue {
		return
	}
	for c, want := range map[*client][]string{short: {"ab"}, long: {"b"}} {
		if got := c.list(""); !slices.Equal(got, want) {
			t.errorf("a tenant sees the names %q, want %q", got, want)
		}
	}
}
