package sessionqueue

import (
	"encoding/json"
	"strings"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/frame"
)

// Format is the prefix of all data. Another number is another format.
const Format = "1 "

// A record is the data of a claim's node. Versions before detached claims ignore its first two fields.
type record struct {
	// ID is the claim's ID if it was detached or attached since its Join. Otherwise it is zero, and not written.
	ID store.ID `json:"id,omitzero"`

	// Detached: the node has a session of its own.
	Detached bool `json:"detached,omitempty"`

	frame.Record
}

// movedPrefix begins the data of a claim that was detached or attached since its Join.
const movedPrefix = Format + `{"id":`

// decodeRecord parses the data of a claim's node. Data that cannot be parsed, such as that of other programs, is a zero
// record.
func decodeRecord(data string) (r record) {
	if text, ok := strings.CutPrefix(data, Format); !ok || json.Unmarshal([]byte(text), &r) != nil {
		r = record{}
	}
	return r
}

// Moved returns, from the data of a node, the ID of a claim that was detached or attached since its Join, and whether
// it is detached. moved is false for any other claim.
func Moved(data string) (id store.ID, detached, moved bool) {
	if !strings.HasPrefix(data, movedPrefix) { // as with nearly every claim
		return id, false, false
	}
	r := decodeRecord(data)
	return r.ID, r.Detached, r.ID != store.ID{}
}
