package consulstore_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/consulstore"
	"github.com/holdfast-go/holdfast/internal/servers"
	"github.com/holdfast-go/holdfast/internal/testkit"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/storetest"
)

// The whole suite in plain mode, but for what needs a queue.
func TestPlainStore(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t testing.TB) storetest.Harness {
		server := servers.Consul(t)
		return &plainHarness{newHarness(t, server, []string{server.Addr()}, server.Restart)}
	})
}

// A plainHarness is a Consul server for stores in plain mode.
type plainHarness struct{ *harness }

// Open ends a prefix with a separator. In plain mode it is put before the name as it is, so that the client that
// chooses prefixes sees to it that none runs into a name.
func (h *plainHarness) Open(t testing.TB, prefix string) (store.Store, storetest.Link) {
	t.Helper()
	ways := testkit.NewWays(t, h.endpoints)
	valved := &consulstore.Valved{}
	l := testkit.ValvedLinks{Links: ways.Links(), Valve: &valved.Valve}
	if prefix != "" {
		prefix += "|"
	}
	s, err := consulstore.OpenThrough(t.Context(), valved, h.endpoints, ways.Addrs(),
		consulstore.WithPrefix(prefix), consulstore.WithTTL(suiteTTL), consulstore.WithPlainMode())
	testkit.Must(t, err)
	return brisk{s}, l
}

// A kv is a key, as Consul describes it.
type kv struct {
	Key     string
	Value   []byte
	Flags   uint64
	Session string
}

// read returns a key by its exact name, or nil.
func (h *harness) read(key string) (*kv, error) {
	var result struct {
		Results []struct{ KV kv }
	}
	body := []any{map[string]any{"KV": map[string]any{"Verb": "get-tree", "Key": key}}}
	err := h.at.Call(context.Background(), http.MethodPut, "/v1/txn", body, &result)
	for _, r := range result.Results {
		if r.KV.Key == key {
			return &r.KV, err
		}
	}
	return nil, err
}

// Erase deletes the key if the claim with this ID has it.
func (h *plainHarness) Erase(name string, id store.ID) error {
	e, err := h.read(name)
	if err != nil {
		return err
	}
	var value struct{ ID store.ID }
	if e == nil || json.Unmarshal([]byte(strings.TrimPrefix(string(e.Value), "1 ")), &value) != nil || value.ID != id {
		return fmt.Errorf("%q is held with %v", name, e)
	}
	return h.txn(nil, map[string]any{"Verb": "delete", "Key": name})
}

// Residue counts the key.
func (h *plainHarness) Residue(name string) (int, error) {
	e, err := h.read(name)
	if e == nil {
		return 0, err
	}
	return 1, err
}

// PlantNewer can't: what others have written has no version.
func (h *plainHarness) PlantNewer(string) error { return errors.ErrUnsupported }
