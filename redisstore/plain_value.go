package redisstore

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/holdfast-go/holdfast/store"
)

// The value that plain mode gives a lock's key, for people who look at it and for Line:
//
//	holdfast ID TICKET SINCE OWNER
//	holdfast 5f0c…01 1763198523000000 2025-11-15T09:22:03.120Z {"label":"nightly","host":"web-1","pid":4711}
//
// It is unique by the claim's ID, by which alone a claim knows it. SINCE is the server's time as far as this client can
// tell. Both stay as they were when the lock was taken, also when it is handed over inside the process.
const (
	valueMark = "holdfast "
	sinceForm = "2006-01-02T15:04:05.000Z07:00"
)

// want is how a claim knows its value in the scripts: by all of it, or by its beginning.
func (b *bid) want() (want, more string) {
	if b.value != "" {
		return b.value, ""
	}
	return valueMark + b.id.String() + " ", "more"
}

// valueRest is what follows the ticket in a value.
func (p *plainMode) valueRest(owner *store.Owner, w *wire) string {
	last := p.owner.Load()
	if last == nil || last.owner != owner {
		text, err := json.Marshal(owner)
		if err != nil {
			text = []byte("{}") // strings, numbers and times can always be written
		}
		last = &described{owner, string(text)}
		p.owner.Store(last)
	}
	return time.UnixMilli(w.serverMillis()).UTC().Format(sinceForm) + " " + last.text
}

// readHolder reads what show in plain.lua says of a holder. It is nil if there is none.
func (p *plainMode) readHolder(answer rueidis.RedisResult, name string) (*store.Place, error) {
	list, err := answer.ToArray()
	if err != nil || len(list) == 0 {
		return nil, err
	}
	if len(list) != 2 {
		return nil, fmt.Errorf("%w: %d words about a holder", errShape, len(list))
	}
	value, err := list[0].ToString()
	if err != nil {
		return nil, err
	}
	left, err := list[1].ToInt64()
	if err != nil {
		return nil, err
	}
	place := &store.Place{
		Claim: store.Claim{Name: name, Ask: store.Ask{Kind: store.Lock, Units: store.MaxReaders, Limit: store.MaxReaders}},
		State: store.Held,
	}
	if left >= 0 {
		place.Left = time.Duration(max(left, 1)) * time.Millisecond // 0 is for who never runs out
	}
	if !p.readValue(place, value) {
		place.Owner = stranger(value)
	}
	return place, nil
}

// readValue reads a value of Holdfast's own into a place.
func (p *plainMode) readValue(place *store.Place, value string) bool {
	rest, ok := strings.CutPrefix(value, valueMark)
	w := words{rest: rest}
	id, ticket := w.id(), w.ticket()
	since, err := time.Parse(sinceForm, w.next())
	var owner store.Owner
	if !ok || w.bad || err != nil || json.Unmarshal([]byte(w.rest), &owner) != nil {
		return false
	}
	place.ID, place.Ticket, place.Owner = id, ticket, &owner
	place.Since = since.Add(-p.base.server.Ahead).Local()
	return true
}

// stranger is the owner of a value that is not Holdfast's own.
func stranger(value string) *store.Owner {
	if value == "" {
		return &store.Owner{Label: "somebody with a key that is no string"}
	}
	return &store.Owner{Label: fmt.Sprintf("somebody with the value %.64q", value)}
}
