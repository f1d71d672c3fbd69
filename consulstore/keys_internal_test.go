package consulstore

import (
	"encoding/json"
	"errors"
	"math/rand/v2"
	"net/http"
	"path"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/holdfast-go/holdfast/internal/servers"
	"github.com/holdfast-go/holdfast/internal/testkit"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/sessionqueue"
)

// oddNames are names that a key, a path or a URL could take for something else.
var oddNames = []string{
	"a", "A", ".", "..", "...", "./a", "../a", "a/..", "a/b", "a//b", "/", "//", "/a", "a/", "a ", " a", " ", "+",
	"a+b",
	"%", "%2e%2e", "%20", "%2F", "~", "~7E", "~2E", "~2e", "~20", "a~", "?", "a?b=c", "#", "&", "=", "*", "\\", "\"",
	"'",
	"\x01", "\n", "\x7f", "\u0080", "\u200b", "\ufeff", "\ufffd", "ü", "u\u0308", "你好", "🔒", "session", "id", "line",
	".lock", "-", "_", "a.b", "a.", ":", "@", ";", ",", "[x]", "{x}", "|", "^", "`", "<>", "$",
	strings.Repeat("x", store.MaxName), strings.Repeat("~", store.MaxName), strings.Repeat("\x01", store.MaxName),
	strings.Repeat("🔒", store.MaxName/4),
}

// randomName makes a name of what is special to keys and URLs, and of anything.
func randomName(r *rand.Rand) string {
	var name strings.Builder
	for range 1 + r.IntN(12) {
		switch r.IntN(4) {
		case 0:
			name.WriteByte("./~%+ -_aZ09"[r.IntN(12)])
		case 1:
			name.WriteString("~" + "0123456789ABCDEFabcdef"[r.IntN(22):][:1])
		case 2:
			name.WriteByte(byte(1 + r.IntN(0x7f)))
		default:
			if c := rune(1 + r.IntN(utf8.MaxRune)); utf8.ValidRune(c) {
				name.WriteRune(c)
			}
		}
	}
	return name.String()
}

// checkEscaped demands that a name is one component of a key, of characters that Consul's HTTP interface takes as they
// are, and is found again.
func checkEscaped(t *testing.T, name string) (line string) {
	t.Helper()
	keys := newKeySpace("")
	line = keys.queue(name)
	component := strings.TrimSuffix(strings.TrimPrefix(line, keys.queues), "/")
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_.~", r)
	}
	if component == "" || strings.ContainsFunc(component, func(r rune) bool { return !plain(r) }) {
		t.Errorf("%q is escaped to %q", name, component)
	}
	if cleaned := path.Clean("/"+line) + "/"; cleaned != "/"+line {
		t.Errorf("%q has the path %q, which is cleaned to %q", name, line, cleaned)
	}
	if back, ok := keys.name(line); !ok || back != name {
		t.Errorf("%q is escaped to %q, and that is %q, %t", name, component, back, ok)
	}
	return line
}

func TestNamesAreEscaped(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	names := slices.Clone(oddNames)
	for range 100_000 {
		if name := randomName(r); store.CheckName(name) == nil {
			names = append(names, name)
		}
	}
	nameOf := map[string]string{}
	for _, name := range names {
		line := checkEscaped(t, name)
		if other, taken := nameOf[line]; taken && other != name {
			t.Errorf("%q and %q have the keys of %q", name, other, line)
		}
		nameOf[line] = name
	}
	if len(nameOf) < 50_000 {
		t.Errorf("of %d names there are %d keys", len(names), len(nameOf))
	}
}

func FuzzNames(f *testing.F) {
	for _, name := range oddNames {
		f.Add(name, name+"~")
	}
	f.Fuzz(func(t *testing.T, a, b string) {
		if store.CheckName(a) != nil || store.CheckName(b) != nil {
			return
		}
		if first, second := checkEscaped(t, a), checkEscaped(t, b); (a == b) != (first == second) {
			t.Errorf("%q has %q, and %q has %q", a, first, b, second)
		}
	})
}

// Keys of another program among those of queues are no names.
func TestForeignKeys(t *testing.T) {
	t.Parallel()
	keys := newKeySpace("")
	for _, line := range []string{
		"", "holdfast/id", "holdfast/line/", "holdfast/line/a", "holdfast/line/a/b/", "holdfast/line/~2e/",
		"holdfast/line/~/", "holdfast/line/~6/", "holdfast/line/~61/", "holdfast/line/./", "holdfast/line/a b/",
		"holdfast/line/%41/", "holdfast/tenant/p/line/a/",
	} {
		if name, ok := keys.name(line); ok {
			t.Errorf("%q is taken for the line of %q", line, name)
		}
	}
}

// A tenant's keys are neither those of another tenant nor those of a store without a prefix.
func TestTenantsAreApart(t *testing.T) {
	t.Parallel()
	seen := map[string]string{}
	for _, prefix := range append([]string{""}, oddNames...) {
		keys := newKeySpace(prefix)
		for _, key := range []string{keys.queues, keys.sessions, keys.id} {
			if other, taken := seen[key]; taken {
				t.Errorf("the prefixes %q and %q have %q", prefix, other, key)
			}
			seen[key] = prefix
		}
	}
	for _, name := range oddNames {
		if line := newKeySpace("").queue(name); strings.HasPrefix(line, root+"tenant/") {
			t.Errorf("the name %q has %q", name, line)
		}
	}
}

// Consul keeps a key as a transaction has written it, and its HTTP interface finds it under the same path.
func TestConsulKeepsKeys(t *testing.T) {
	t.Parallel()
	server := servers.Consul(t)
	const batch = 64 // Consul takes 128 operations
	for names := range slices.Chunk(oddNames, batch) {
		var ops []any
		for _, name := range names {
			ops = append(ops, map[string]any{"KV": casOp(newKeySpace("").queue(name)+"claim", 0, name)})
		}
		testkit.Must(t, server.Call(t.Context(), http.MethodPut, "/v1/txn", ops, nil))
	}
	for _, name := range oddNames {
		key := newKeySpace("").queue(name) + "claim"
		var found []entry
		testkit.Must(t, server.Call(t.Context(), http.MethodGet, "/v1/kv/"+key, nil, &found))
		if len(found) != 1 || found[0].Key != key || string(found[0].Value) != name {
			t.Errorf("the key of %q is %+v", name, found)
		}
	}
	var lines []string
	testkit.Must(t, server.Call(t.Context(), http.MethodGet, "/v1/kv/holdfast/line/?keys&separator=/", nil, &lines))
	if len(lines) != len(oddNames) {
		t.Errorf("of %d names there are %d lines", len(oddNames), len(lines))
	}
}

// What a claim's key says is read as it was written.
func TestValues(t *testing.T) {
	t.Parallel()
	for _, ask := range []store.Demand{
		{Kind: store.Lock, Units: store.MaxReaders, Limit: store.MaxReaders},
		{Kind: store.Lock, Units: 1, Limit: store.MaxReaders},
		{Kind: store.Semaphore, Units: 2, Limit: 3},
	} {
		for _, data := range []string{sessionqueue.Format, sessionqueue.Format + "{}", sessionqueue.Format +
			`{"a b":"c"} d`} {
			got, back, err := decodeValue(&entry{Value: []byte(encodeValue(ask, data))})
			if err != nil || got != ask || back != data {
				t.Errorf("%+v and %q are %+v and %q, %v", ask, data, got, back, err)
			}
		}
	}
}

// A value of a later version, or of another program, is an error, and says which.
func TestUnreadableValues(t *testing.T) {
	t.Parallel()
	for value, want := range map[string]error{
		"2 of the future": store.ErrFormat, "99": store.ErrFormat, "2 ": store.ErrFormat,
		"": sessionqueue.ErrUnreadable, "hello": sessionqueue.ErrUnreadable, "1": sessionqueue.ErrUnreadable,
		"1 ": sessionqueue.ErrUnreadable, "1 nonsense {}": sessionqueue.ErrUnreadable,
		"-1 x":        sessionqueue.ErrUnreadable,
		`{"Limit":1}`: sessionqueue.ErrUnreadable, "\x00": sessionqueue.ErrUnreadable,
	} {
		_, _, err := decodeValue(&entry{Key: "holdfast/line/x/1", Value: []byte(value)})
		if !errors.Is(err, want) || !strings.Contains(err.Error(), "holdfast/line/x/1") {
			t.Errorf("%q: %v, want %v", value, err, want)
		}
	}
}

// A queue is in the order of create indexes. If one claim can't be read, the queue can't. What is newer goes before.
func TestDecodeLine(t *testing.T) {
	t.Parallel()
	value := []byte(encodeValue(store.Demand{Kind: store.Semaphore, Units: 1, Limit: 2}, sessionqueue.Format))
	claim := func(id byte, index uint64) entry {
		key := newKeySpace("").claim("x", store.ID{id})
		return entry{Key: key, Value: value, Session: "s", CreateIndex: index}
	}
	line, err := decodeQueue([]entry{claim(1, 30), claim(2, 9), claim(3, 100)})
	testkit.Must(t, err)
	var order []byte
	for _, e := range line {
		order = append(order, e.ID[0])
	}
	if !slices.Equal(order, []byte{2, 1, 3}) {
		t.Errorf("the order is %v", order)
	}
	without, strange, newer := claim(4, 4), claim(5, 5), claim(6, 6)
	without.Session, strange.Key, newer.Value = "", newKeySpace("").queue("x")+"note", []byte("2 x")
	for name, test := range map[string]struct {
		entries []entry
		want    error
	}{
		"no session":       {[]entry{claim(1, 1), without}, sessionqueue.ErrUnreadable},
		"no ID":            {[]entry{strange, claim(1, 1)}, sessionqueue.ErrUnreadable},
		"newer":            {[]entry{claim(1, 1), newer}, store.ErrFormat},
		"newer and others": {[]entry{without, strange, newer}, store.ErrFormat},
	} {
		if line, err := decodeQueue(test.entries); !errors.Is(err, test.want) || line != nil {
			t.Errorf("%s: %v, %v", name, line, err)
		}
	}
}

// A transaction's fields are written as Consul reads them, and it is told from one that was rolled back.
func TestTxnResult(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`{"Results":[],"Errors":null}`:                                      "",
		`{"Results":null,"Errors":[{"OpIndex":2,"What":"index is stale"}]}`: "index is stale",
		`{"Errors":[{"OpIndex":0,"What":"Permission denied: lacks 'key:write'"}]}`: "Permission denied: lacks " +
			"'key:write'",
		`{"Errors":[{"OpIndex":0,"What":"a\u0000b\nc"},{"OpIndex":1,"What":"d"}]}`: "a b c",
	} {
		var result txnResult
		testkit.Must(t, json.Unmarshal([]byte(text), &result))
		err, says := result.failure(), ""
		if err != nil {
			says = err.Error()
		}
		if says != want {
			t.Errorf("%s is %q, want %q", text, says, want)
		}
		if mayHaveBeenDone(err) {
			t.Errorf("%s: it may have been done", text)
		}
	}
}
