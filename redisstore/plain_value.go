package redisstore

import (
	"fmt"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/internal/rediskey"
	"github.com/holdfast-go/holdfast/internal/rediswire"
	"github.com/holdfast-go/holdfast/store"
)

// want returns how the scripts recognise the value of a claim: by all of it, or by its beginning.
func (b *plainClaim) want() (want, more string) {
	if b.value != "" {
		return b.value, ""
	}
	return rediskey.Mark + b.id.String() + " ", "more"
}

// valueRest returns what follows the ticket in a value of Holdfast's own:
//
//	holdfast ID TICKET SINCE OWNER
//	holdfast 5f0c…01 1763198523000000 2025-11-15T09:22:03.120Z {"label":"nightly","host":"web-1","pid":4711}
//
// A claim recognises it by its ID alone. SINCE is the server's time as far as this client knows it. SINCE and OWNER are
// of when the lock was acquired, and do not change when it is handed over inside the process.
func (p *plainMode) valueRest(owner *store.Owner, w *connection) string {
	return rediskey.Since(time.UnixMilli(w.serverMillis())) + " " + p.owners.Text(owner)
}

// readHolder parses the holder as describe in plain.lua writes it. It returns nil if there is none.
func (p *plainMode) readHolder(answer rediswire.Reply, name string) (*store.Entry, error) {
	list, err := answer.List()
	if err != nil || len(list) == 0 {
		return nil, err
	}
	if len(list) != 2 {
		return nil, fmt.Errorf("%w: %d words about a holder", rediswire.ErrShape, len(list))
	}
	value, err := list[0].Text()
	if err != nil {
		return nil, err
	}
	left, err := list[1].Int64()
	if err != nil {
		return nil, err
	}
	return rediskey.Holder(name, value, time.Duration(left)*time.Millisecond, p.readValue), nil
}

// readValue parses a value of Holdfast's own into an entry.
func (p *plainMode) readValue(place *store.Entry, value string) bool {
	rest, ok := strings.CutPrefix(value, rediskey.Mark)
	w := words{rest: rest}
	id, ticket, since := w.next(), w.ticket(), w.next()
	if !ok || w.bad || !rediskey.Read(place, id, since, w.rest) {
		return false
	}
	place.Ticket = ticket
	place.Since = place.Since.Add(-p.base.server.Ahead)
	return true
}
