package rediskey

import (
	"encoding/json"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/store"
)

// A value of Holdfast's own begins with Mark and the claim's ID, which makes it unique. It ends with when the claim
// joined and with its owner. What else it has is up to the store.
const (
	Mark      = "holdfast "
	sinceForm = "2006-01-02T15:04:05.000Z07:00"
)

// Since returns a time as values have it.
func Since(t time.Time) string { return t.UTC().Format(sinceForm) }

// Owners returns owners as values have them. Most claims of a client have the same, so it remembers the last.
type Owners struct{ last atomic.Pointer[described] }

type described struct {
	owner *store.Owner
	text  string
}

// Text returns the text of an owner.
func (o *Owners) Text(owner *store.Owner) string { return o.TextOf(owner, func() any { return owner }) }

// TextOf is Text for an owner that is described in another way. All calls describe owners in the same way.
func (o *Owners) TextOf(owner *store.Owner, describe func() any) string {
	last := o.last.Load()
	if last == nil || last.owner != owner {
		last = &described{owner, JSON(describe())}
		o.last.Store(last)
	}
	return last.text
}

// JSON returns v as JSON. It is for structs that have strings, numbers and times, which can always be written.
func JSON(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		return "{}"
	}
	return string(text)
}

// Holder returns the holder of the lock of a name, from the value of its key and how long that lives; less than 0 is
// forever. Read reads a value of Holdfast's own, and reports whether it is one.
func Holder(name, value string, left time.Duration, read func(*store.Entry, string) bool) *store.Entry {
	p := &store.Entry{
		Claim: store.Claim{
			Name:   name,
			Demand: store.Demand{Kind: store.Lock, Units: store.MaxReaders, Limit: store.MaxReaders},
		},
		State: store.Held,
	}
	if left >= 0 {
		p.Left = max(left, time.Millisecond) // 0 is for one that never expires
	}
	switch {
	case read(p, value):
	case value == "":
		p.Owner = &store.Owner{Label: "somebody with a key that is no string"}
	default:
		p.Owner = &store.Owner{Label: fmt.Sprintf("somebody with the value %.64q", value)}
	}
	return p
}

// Read sets of a holder what all values of Holdfast's own have, and reports whether they have it.
func Read(p *store.Entry, id, since, owner string) bool {
	at, err := time.Parse(sinceForm, since)
	var claim store.ID
	var o store.Owner
	if err != nil || claim.UnmarshalText([]byte(id)) != nil || json.Unmarshal([]byte(owner), &o) != nil {
		return false
	}
	p.ID, p.Owner, p.Since = claim, &o, at.Local()
	return true
}
