package zkstore

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/sessionqueue"
)

var (
	mutexLayout = curatorLayout{}
	rwLayout    = curatorLayout{root: "/base", shared: true}
	writer      = store.Demand{Kind: store.Lock, Units: store.MaxReaders, Limit: store.MaxReaders}
	reader      = store.Demand{Kind: store.Lock, Units: 1, Limit: store.MaxReaders}
	exampleID   = store.ID{
		0x01,
		0x23,
		0x45,
		0x67,
		0x89,
		0xab,
		0xcd,
		0xef,
		0xfe,
		0xdc,
		0xba,
		0x98,
		0x76,
		0x54,
		0x32,
		0x10,
	}
	exampleShape = "_c_01234567-89ab-cdef-fedc-ba9876543210-"
)

// The nodes of claims are named as Curator names them, and are understood again.
func TestCuratorNodes(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		layout curatorLayout
		ask    store.Demand
		want   string
	}{
		{mutexLayout, writer, exampleShape + "lock-"},
		{rwLayout, writer, exampleShape + "__WRIT__"},
		{rwLayout, reader, exampleShape + "__READ__"},
	} {
		begin, err := test.layout.node(exampleID, test.ask)
		if err != nil || begin != test.want {
			t.Errorf("the name begins with %q, %v; want %q", begin, err, test.want)
		}
		for _, seq := range []int32{0, 7, math.MaxInt32, math.MinInt32, -1} {
			node := begin + fmt.Sprintf(sequence, seq)
			e, ok, err := test.layout.parse(node)
			want := entry{Entry: sessionqueue.Entry{Key: node, ID: exampleID, Demand: test.ask}, seq: seq}
			if !ok || err != nil || e != want {
				t.Errorf("%q is %+v, %v, %v; want %+v", node, e, ok, err, want)
			}
		}
	}
	for _, ask := range []store.Demand{reader, {Kind: store.Semaphore, Units: 1, Limit: 1}} {
		if _, err := mutexLayout.node(exampleID, ask); !errors.Is(err, store.ErrUnsupported) {
			t.Errorf("%+v in a mutex: %v", ask, err)
		}
	}
	if _, err := rwLayout.node(exampleID, store.Demand{Kind: store.Semaphore, Units: 1, Limit: 2}); !errors.Is(err,
		store.ErrUnsupported) {
		t.Errorf("a semaphore: %v", err)
	}
}

// Children that are no claims don't count, and one that was made without protection does.
func TestForeignChildren(t *testing.T) {
	t.Parallel()
	for child, counts := range map[string][2]bool{ // in a mutex, in a read-write lock
		"lock-0000000003": {true, false},
		"_c_0123456789abcdeffedcba9876543210-lock-0000000003": {true, false},
		"a-lock-b-lock-0000000003":                            {true, false},
		"__WRIT__0000000003":                                  {false, true},
		"x__READ__0000000003":                                 {false, true},
		"lock-3":                                              {},
		"lock-00000000003":                                    {},
		"lock-+000000003":                                     {},
		"lock-":                                               {},
		"lock-9999999999":                                     {},
		"lock-0000000003x":                                    {},
		"__READ__":                                            {},
		"0000000003":                                          {},
		"shard":                                               {},
	} {
		for i, l := range []curatorLayout{mutexLayout, rwLayout} {
			if e, ok, err := l.parse(child); ok != counts[i] || err != nil || ok && e.seq != 3 {
				t.Errorf("%q with %+v: %+v, %v, %v", child, l, e, ok, err)
			}
		}
	}
}

// Claims are in the order of their numbers, also around where these begin again. A writer of Curator that has become a
// reader has two nodes with one number.
func TestCuratorOrder(t *testing.T) {
	t.Parallel()
	want := []string{
		"b-__READ__2147483646", "a-__WRIT__2147483647", "a-__READ__2147483647", "d-__READ__-2147483648",
		"c-__WRIT__-2147483647",
	}
	for range 20 {
		children := append(slices.Clone(want), "-", "other")
		rand.Shuffle(len(children), func(i, j int) { children[i], children[j] = children[j], children[i] })
		entries, err := parseQueue(rwLayout, children)
		var got []string
		for _, e := range entries {
			got = append(got, e.Key)
		}
		if err != nil || !slices.Equal(got, want) {
			t.Fatalf("%q, %v; want %q", got, err, want)
		}
	}
}

// The path of a name is that of a lock of Curator's, but where ZooKeeper or a queue would give it another meaning.
func TestCuratorPaths(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"orders":                 "/base/orders",
		"shop/orders/lock-7":     "/base/shop/orders/lock-7",
		"shop.2/ö":               "/base/shop.2/ö",
		"holdfast":               "/base/holdfas%74",
		"zookeeper/x":            "/base/zookeepe%72/x",
		"x/holdfast":             "/base/x/holdfast",
		"a//b/":                  "/base/a/%/b/%",
		"./..":                   "/base/%2E/.%2E",
		"50%":                    "/base/50%25",
		"a\nb\u0085\U0001f600":   "/base/a%0Ab%C2%85%F0%9F%98%80",
		"a/x-__READ__0000000001": "/base/a/x-__READ__000000000%31",
	} {
		path := rwLayout.path(name)
		back, ok := rwLayout.name(path)
		if path != want || back != name || !ok || !isPath(path) || !rwLayout.mayHaveQueues(path) {
			t.Errorf("%q has the path %q, which is %q, %v; want %q", name, path, back, ok, want)
		}
	}
	for _, path := range []string{"/base", "/other/a", "/base/a%41", "/base/50%", "/base/holdfast", "/base/%6F"} {
		if name, ok := rwLayout.name(path); ok {
			t.Errorf("%q is the path of %q", path, name)
		}
	}
}

// FuzzPaths: every name has a path that ZooKeeper takes, and no two names have one.
func FuzzPaths(f *testing.F) {
	for _, name := range []string{"a", "a/b", "//", "%", "%25", ".", "..", "\uf8ff\ufff0", "lock-0000000001"} {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, name string) {
		if store.CheckName(name) != nil {
			return
		}
		for _, l := range []layout{mutexLayout, rwLayout, ownLayout{"/lines"}} {
			path := l.path(name)
			if back, ok := l.name(path); !ok || back != name {
				t.Errorf("%q has the path %q, which is %q, %v", name, path, back, ok)
			}
			if !isPath(path) || strings.ContainsFunc(path, refused) || !l.mayHaveQueues(path) {
				t.Errorf("%q has the path %q, which is none", name, path)
			}
		}
	})
}

// refused reports whether ZooKeeper has a character in no path.
func refused(r rune) bool {
	return r < 0x20 || r >= 0x7f && r < 0xa0 || r >= 0xd800 && r <= 0xf8ff || r >= 0xfff0
}
