package redlock

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/redlock/internal/vote"
	"github.com/holdfast-go/holdfast/store"
)

// The value of a lock's key, for people who look at it and for Line, is what value gives, with the number of the try:
//
//	holdfast ID SINCE OWNER.TRY
//	holdfast 5f0c…01 2025-11-15T09:22:03.120Z {"label":"nightly","host":"web-1","pid":4711}.1
//
// It is unique by the claim's ID. SINCE is when the claim joined, by the clock of its machine. Both stay as they were, also
// when the lock is handed over inside the process.
const (
	valueMark = "holdfast "
	sinceForm = "2006-01-02T15:04:05.000Z07:00"
)

// A described owner is one as it stands in values.
type described struct {
	owner *store.Owner
	text  string
}

// value is what the values of all tries of a claim begin with.
func (s *Store) value(c *store.Claim) string {
	last := s.owner.Load()
	if last == nil || last.owner != c.Owner {
		text, err := json.Marshal(c.Owner)
		if err != nil {
			text = []byte("{}") // strings, numbers and times can always be written
		}
		last = &described{c.Owner, string(text)}
		s.owner.Store(last)
	}
	return valueMark + c.ID.String() + " " + time.Now().UTC().Format(sinceForm) + " " + last.text
}

// holder is who has a key, by what a node said of it.
func holder(name string, a *vote.Answer) *store.Place {
	p := &store.Place{
		Claim: store.Claim{
			Name: name, Ticket: a.Ticket,
			Ask: store.Ask{Kind: store.Lock, Units: store.MaxReaders, Limit: store.MaxReaders},
		},
		State: store.Held,
	}
	if a.Left >= 0 {
		p.Left = max(a.Left, time.Millisecond) // 0 is for who never runs out
	}
	if !readValue(p, a.Holder) {
		p.Owner = stranger(a.Holder)
	}
	return p
}

// readValue reads a value of Holdfast's own.
func readValue(p *store.Place, value string) bool {
	rest, ok := strings.CutPrefix(value, valueMark)
	id, rest, _ := strings.Cut(rest, " ")
	since, rest, _ := strings.Cut(rest, " ")
	at, err := time.Parse(sinceForm, since)
	try := strings.LastIndexByte(rest, '.')
	var owner store.Owner
	if !ok || err != nil || try < 0 || p.ID.UnmarshalText([]byte(id)) != nil || json.Unmarshal([]byte(rest[:try]), &owner) != nil {
		return false
	}
	p.Owner, p.Since = &owner, at.Local()
	return true
}

// stranger is the owner of a value that is not Holdfast's own.
func stranger(value string) *store.Owner {
	if value == "" {
		return &store.Owner{Label: "somebody with a key that is no string"}
	}
	return &store.Owner{Label: fmt.Sprintf("somebody with the value %.64q", value)}
}
