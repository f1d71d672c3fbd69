package frame

import (
	"cmp"
	"encoding/json"
	"time"

	"github.com/holdfast-go/holdfast/store"
)

// A Record is the description of a claim that is stored at a server with sessions, for operators and for finding
// deadlocks. No grant depends on it.
type Record struct {
	TTL     int64        `json:"ttl"`               // of its session, in milliseconds
	Joined  int64        `json:"joined"`            // when, in milliseconds since 1970 by its client's clock
	Granted int64        `json:"granted,omitempty"` // likewise, if it had to wait
	Turn    uint8        `json:"turn,omitempty"`
	Owner   *store.Owner `json:"owner"`
	Waits   []store.Wait `json:"waits,omitempty"`
}

// tellGrant is how long a claim that had to wait is held before its record has the time of the grant. A shorter hold
// costs no write for it.
const tellGrant = time.Second

// NewRecord returns the record of a claim with its times by this client's clock: when it joined and, if it had to wait,
// when it was granted. A zero granted means that it did not have to wait.
func NewRecord(c *store.Claim, ttl time.Duration, joined, granted time.Time) Record {
	r := Record{TTL: ttl.Milliseconds(), Joined: joined.UnixMilli(), Turn: c.Turn, Owner: c.Owner, Waits: c.Waits}
	if !granted.IsZero() && time.Since(granted) > tellGrant {
		r.Granted = granted.UnixMilli()
	}
	return r
}

// Show copies the record into the entry of its claim, whose State must be set already. Times are by the clocks of the
// clients. Left is set to the whole ttl, which is an upper bound.
func (r *Record) Show(p *store.Entry) {
	p.Turn, p.Owner, p.Waits = r.Turn, cmp.Or(r.Owner, &store.Owner{}), r.Waits
	p.TTL = time.Duration(r.TTL) * time.Millisecond
	p.Left = p.TTL
	since := r.Joined
	if p.State == store.Held {
		since = cmp.Or(r.Granted, since)
	}
	if since != 0 {
		p.Since = time.UnixMilli(since)
	}
}

// Encode returns a record, or a struct that contains one, as JSON after the prefix format.
func Encode(format string, record any) string {
	text, err := json.Marshal(record)
	if err != nil {
		text = []byte("{}") // strings and numbers can always be written
	}
	return format + string(text)
}
