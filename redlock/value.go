package redlock

import (
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/internal/rediskey"
	"github.com/holdfast-go/holdfast/redlock/internal/vote"
	"github.com/holdfast-go/holdfast/store"
)

// value returns the beginning of the values of all tries of a claim. The number of the try follows:
//
//	holdfast ID SINCE OWNER.TRY
//	holdfast 5f0c…01 2025-11-15T09:22:03.120Z {"label":"nightly","host":"web-1","pid":4711}.1
//
// SINCE is when the claim joined, by the clock of its machine. SINCE and OWNER do not change when the lock is handed
// over inside the process.
func (s *Store) value(c *store.Claim) string {
	return rediskey.Mark + c.ID.String() + " " + rediskey.Since(time.Now()) + " " + s.owners.Text(c.Owner)
}

// holder returns the holder of a key by the answer of a node.
func holder(name string, a *vote.Answer) *store.Entry {
	p := rediskey.Holder(name, a.Holder, a.Left, readValue)
	p.Ticket = a.Ticket
	return p
}

// readValue reads a value of Holdfast's own.
func readValue(p *store.Entry, value string) bool {
	rest, ok := strings.CutPrefix(value, rediskey.Mark)
	id, rest, _ := strings.Cut(rest, " ")
	since, owner, _ := strings.Cut(rest, " ")
	try := strings.LastIndexByte(owner, '.')
	return ok && try >= 0 && rediskey.Read(p, id, since, owner[:try])
}
