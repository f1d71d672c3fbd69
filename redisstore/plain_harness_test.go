package redisstore_test

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/internal/servers"
	"github.com/holdfast-go/holdfast/internal/testkit"
	"github.com/holdfast-go/holdfast/lab/proxy"
	"github.com/holdfast-go/holdfast/redisstore"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/storetest"
)

func TestPlainStore(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t testing.TB) storetest.Harness { return newPlainHarness(t) })
}

// A plainHarness is a Redis server for stores in plain mode.
type plainHarness struct {
	*harness
	server *servers.RedisServer
}

func newPlainHarness(t testing.TB, options ...servers.Option) *plainHarness {
	h := newHarness(t, options...)
	return &plainHarness{h, h.nodes[0]}
}

// Open ends a prefix with a separator. In plain mode it is put before the name as it is, and so it is for whoever
// chooses prefixes to see that none runs into a name: TestPlainPrefixesRunTogether shows what happens otherwise.
func (h *plainHarness) Open(t testing.TB, prefix string) (store.Store, storetest.Link) {
	t.Helper()
	p := testkit.Proxy(t, h.server.Addr(), proxy.Classify(proxy.RESP2))
	query := "?mode=plain"
	if prefix != "" {
		query += "&prefix=" + url.QueryEscape(prefix+"|")
	}
	s, err := redisstore.OpenThrough(t.Context(), testkit.Locate(t, h.url+query), p.Addr())
	testkit.Must(t, err)
	return s, p.Link()
}

// Erase does what another library does that has the claim's value.
func (h *plainHarness) Erase(name string, id store.ID) error {
	value, err := h.server.Do("GET", name)
	if err != nil {
		return err
	}
	if text, _ := value.(string); !strings.HasPrefix(text, "holdfast "+id.String()+" ") {
		return fmt.Errorf("%q is held with the value %q", name, value)
	}
	_, err = h.server.Do("DEL", name)
	return err
}

// Residue counts the key, and tombstones.
func (h *plainHarness) Residue(name string) (int, error) {
	answer, err := h.server.Do("EXISTS", name)
	if err != nil {
		return 0, err
	}
	left, err := h.server.Do("KEYS", "holdfast:{}:left:*:"+name)
	if err != nil {
		return 0, err
	}
	return int(answer.(int64)) + len(left.([]any)), nil
}

// PlantNewer cannot: the value that others set has no version.
func (h *plainHarness) PlantNewer(string) error { return errors.ErrUnsupported }
