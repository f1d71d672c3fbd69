package etcdstore

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"go.etcd.io/etcd/api/v3/mvccpb"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/frame"
	"github.com/holdfast-go/holdfast/store/grant"
)

// format is the prefix of every value. Another number is another format.
const format = "1 "

// A record is the value of a claim's key.
type record struct {
	ID    store.ID   `json:"id"`
	Kind  store.Kind `json:"kind"`
	Units int32      `json:"units"`
	Limit int32      `json:"limit"`

	// Detached: the key has a lease of its own. Versions before it ignore the field, and count the claim as any other.
	Detached bool `json:"detached,omitempty"`

	frame.Record
}

func (r *record) ask() store.Demand {
	return store.Demand{Kind: r.Kind, Units: r.Units, Limit: r.Limit}
}

// encode returns the record with its format.
func (r *record) encode() string { return frame.Encode(format, r) }

var errForeign = errors.New("holds what no version of holdfast has written")

// decode parses a value. The error is errForeign or store.ErrFormat.
func decode(value []byte) (r record, err error) {
	version, text, _ := strings.Cut(string(value), " ")
	switch {
	case version+" " != format && strings.Trim(version, "0123456789") == "" && version != "":
		return r, store.ErrFormat
	case version+" " != format || json.Unmarshal([]byte(text), &r) != nil:
		return r, errForeign
	case r.Kind != store.Lock && r.Kind != store.Semaphore || r.Units < 1 || r.Units > r.Limit ||
		r.Limit > store.MaxReaders:
		return r, errForeign
	}
	return r, nil
}

// An entry is a claim with its key and value in etcd.
type entry struct {
	record
	kv *mvccpb.KeyValue
}

func (e *entry) ticket() uint64 { return uint64(e.kv.CreateRevision) } //nolint:gosec // revisions are positive

// decodeLine decodes a queue, in order of arrival. A value that can't be decoded is an error: no claim may be granted
// from a queue that is understood only in part.
func decodeLine(kvs []*mvccpb.KeyValue) ([]entry, error) {
	entries := make([]entry, len(kvs))
	for i, kv := range kvs {
		r, err := decode(kv.Value)
		if err != nil {
			return nil, unreadable(kv.Key, err)
		}
		entries[i] = entry{r, kv}
	}
	slices.SortFunc(entries, func(a, b entry) int { return cmp.Compare(a.kv.CreateRevision, b.kv.CreateRevision) })
	return entries, nil
}

// unreadable returns the error of a value that this version can't decode.
func unreadable(key []byte, err error) error {
	if errors.Is(err, store.ErrFormat) {
		return fmt.Errorf("%w: the key %s", err, store.Quote(string(key)))
	}
	return fmt.Errorf("the key %s %w", store.Quote(string(key)), err)
}

// mismatch returns ErrMismatch if c may not join a queue that begins with these entries.
func mismatch(ahead []entry, c *store.Claim) error {
	if len(ahead) > 0 && grant.Mismatch(ahead[0].ask(), c.Demand, c.AnyLimit) {
		return &store.MismatchError{InUse: ahead[0].ask()}
	}
	return nil
}
