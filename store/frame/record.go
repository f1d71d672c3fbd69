package frame

import (
	"cmp"
	"encoding/json"
	"time"

	"github.com/holdfast-go/holdfast/store"
)

// A Record is what a server with sessions is told of a claim for operators and for finding deadlocks. It decides
// nothing.
type Record struct {
	TTL     int64        `json:"ttl"`               // of its session, in milliseconds
	Joined  int64        `json:"joined"`            // when, in milliseconds since 1970 by its client's clock
	Granted int64        `json:"granted,omitempty"` // likewise, if it had to wait
	Turn    uint8        `json:"turn,omitempty"`
	Owner   *store.Owner `json:"owner"`
	Waits   []store.Wait `json:"waits,omitempty"`
}

// tellGrant is how long a claim that had to wait is held before its record says since when. A short hold costs no write
// for it.
const tellGrant = time.Second

// NewRecord returns the record of a claim that joined then, and was granted then if it had to wait.
func NewRecord(c *store.Claim, ttl time.Duration, joined, granted time.Time) Record {
	r := Record{
		TTL: ttl.Milliseconds(), Joined: joined.UnixMilli(), Turn: c.Turn, Owner: c.Owner, Waits: c.Waits,
	}
	if !granted.IsZero() && time.Since(granted) > tellGrant {
		r.Granted = granted.UnixMilli()
	}
	return r
}

// Show shows the record at the place of its claim, whose State is known. Times are those of the clients' clocks, and
// Left is the most that it can be.
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

// Encode writes a record, or what has one, as JSON behind its format.
func Encode(format string, record any) string {
	text, err := json.Marshal(record)
	if err != nil {
		text = []byte("{}") // strings and numbers can always be written
	}
	return format + string(text)
}
