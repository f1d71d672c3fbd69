package sessionline

import (
	"encoding/json"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/store"
)

// Format is what all data begins with. Another number there is another format.
const Format = "1 "

// A record is the data of a claim's node, for people and for finding deadlocks. Who holds is decided by names alone.
type record struct {
	TTL     int64        `json:"ttl"`               // of its session, in milliseconds
	Joined  int64        `json:"joined"`            // when, in milliseconds since 1970 by its client's clock
	Granted int64        `json:"granted,omitempty"` // likewise, if it had to wait
	Turn    uint8        `json:"turn,omitempty"`
	Owner   *store.Owner `json:"owner"`
	Waits   []store.Wait `json:"waits,omitempty"`
}

// encode writes the record with its format.
func (r *record) encode() string {
	text, err := json.Marshal(r)
	if err != nil {
		text = []byte("{}") // strings and numbers can always be written
	}
	return Format + string(text)
}

// decodeRecord reads data. What can't be read, as that of other programs, says nothing.
func decodeRecord(data string) (r record) {
	if text, ok := strings.CutPrefix(data, Format); !ok || json.Unmarshal([]byte(text), &r) != nil {
		r = record{}
	}
	if r.Owner == nil {
		r.Owner = &store.Owner{}
	}
	return r
}

func millis(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}
