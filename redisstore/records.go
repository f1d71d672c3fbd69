package redisstore

import (
	"encoding/hex"
	"encoding/json"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/internal/rediskey"
	"github.com/holdfast-go/holdfast/store"
)

// An about is the part of a claim's record that the scripts do not read. Its JSON keys are short: scripts take longer
// for each byte.
type about struct {
	ID      string       `json:"i,omitempty"`
	Label   string       `json:"l,omitempty"`
	Host    string       `json:"h,omitempty"`
	Address string       `json:"a,omitempty"`
	PID     int          `json:"p,omitempty"`
	Started int64        `json:"s,omitempty"` // in nanoseconds since 1970
	Turn    uint8        `json:"t,omitempty"`
	Waits   []store.Wait `json:"w,omitempty"`
}

// newAbout returns the about of a claim.
func newAbout(c *store.Claim) about {
	o := c.Owner
	a := about{o.ID, o.Label, o.Host, o.Address, o.PID, 0, c.Turn, c.Waits}
	if !o.Started.IsZero() {
		a.Started = o.Started.UnixNano()
	}
	return a
}

// tell copies it into a claim.
func (a *about) tell(c *store.Claim) {
	c.Owner = &store.Owner{ID: a.ID, Label: a.Label, Host: a.Host, Address: a.Address, PID: a.PID}
	if a.Started != 0 {
		c.Owner.Started = time.Unix(0, a.Started).UTC()
	}
	c.Turn, c.Waits = a.Turn, a.Waits
}

// about returns the about of a claim as JSON. Most claims of a client have the same owner, and no other fields.
func (s *lines) about(c *store.Claim) string {
	if c.Turn == 0 && len(c.Waits) == 0 {
		return s.owners.TextOf(c.Owner, func() any { return newAbout(c) })
	}
	return rediskey.JSON(newAbout(c))
}

// describe returns the arguments of join.lua about a claim: "ID REST" (see queue.lua), ttl and grace in milliseconds,
// and the floor. They are parts of one string, so that they cost one allocation.
func (s *lines) describe(c *store.Claim, at *slotKeys, w *connection) (claim, px, floor string) {
	about := s.about(c)
	var space [512]byte // most claims have less to say
	b := append(hex.AppendEncode(space[:0], c.ID[:]), ' ')
	b = append(strconv.AppendInt(b, w.serverMillis(), 10), ' ')
	b = appendRest(b, c, at, about)
	first := len(b)
	b = strconv.AppendInt(b, ceilMillis(c.TTL+c.Grace), 10)
	second := len(b)
	all := string(strconv.AppendUint(b, c.Floor, 10))
	return all[:first], all[first:second], all[second:]
}

// said returns the argument of keep.lua about a claim: REST from KIND on.
func (s *lines) said(c *store.Claim, at *slotKeys) string {
	about := s.about(c)
	return string(appendRest(make([]byte, 0, len(about)+80), c, at, about))
}

// appendRest appends "KIND LIMIT UNITS TTL GRACE CHANNEL ABOUT".
func appendRest(b []byte, c *store.Claim, at *slotKeys, about string) []byte {
	for _, n := range [...]int64{int64(c.Kind), int64(c.Limit), int64(c.Units), ceilMillis(c.TTL),
		ceilMillis(c.Grace)} {
		b = append(strconv.AppendInt(b, n, 10), ' ')
	}
	b = append(append(b, at.channel...), ' ')
	return append(b, about...)
}

// ceilMillis returns d in milliseconds, rounded up, so that the server never counts less than was requested.
func ceilMillis(d time.Duration) int64 { return int64((d + time.Millisecond - 1) / time.Millisecond) }

// millis returns ceilMillis as text.
func millis(d time.Duration) string { return strconv.FormatInt(ceilMillis(d), 10) }

// A words parses the fields of a reply one by one. If one is missing or is not a number, bad is set.
type words struct {
	rest string
	bad  bool
}

// next returns the next field.
func (w *words) next() string {
	word, rest, _ := strings.Cut(w.rest, " ")
	w.rest = rest
	w.bad = w.bad || word == ""
	return word
}

// number returns the next field as a number of so many bits that is not negative.
func (w *words) number(bits int) int64 {
	n, err := strconv.ParseInt(w.next(), 10, bits)
	w.bad = w.bad || err != nil || n < 0
	return n
}

// ticket returns the next field as a ticket.
func (w *words) ticket() uint64 { return uint64(w.number(64)) } //nolint:gosec // number refuses what is negative

// millis returns the next field, a number of milliseconds, as a duration.
func (w *words) millis() time.Duration { return time.Duration(w.number(42)) * time.Millisecond }

// id returns the next field as an ID.
func (w *words) id() (id store.ID) {
	w.bad = id.UnmarshalText([]byte(w.next())) != nil || w.bad
	return id
}

// standing parses "h TICKET AHEAD", "w TICKET AHEAD RECHECK" or "g" into a status without Until.
func (w *words) standing() (s store.Status, ok bool) {
	switch w.next() {
	case "h":
		s = store.Status{State: store.Held, Ticket: w.ticket(), Ahead: int(w.number(32))}
	case "w":
		s = store.Status{State: store.Waiting, Ticket: w.ticket(), Ahead: int(w.number(32))}
		s.RecheckAt = time.Now().Add(w.millis() + askAfter)
	case "g":
	default:
		return s, false
	}
	return s, !w.bad
}

// place parses an entry that describe in queue.lua wrote: "STATE LEFT AGO ID RECORD".
func (w *words) place(name string) (p store.Entry, ok bool) {
	switch w.next() {
	case "h":
		p.State = store.Held
	case "w":
		p.State = store.Waiting
	default:
		return p, false
	}
	p.Left = w.millis()
	p.Since = time.Now().Add(-w.millis())
	p.ID, p.Name = w.id(), name
	p.Ticket = w.ticket()
	// Since, by the server's clock.
	w.next()
	//nolint:gosec // 8 and 32 bits
	p.Demand = store.Demand{Kind: store.Kind(w.number(8)), Limit: int32(w.number(32)), Units: int32(w.number(32))}
	p.TTL, p.Grace = w.millis(), w.millis()
	w.next() // the channel
	var a about
	if json.Unmarshal([]byte(w.rest), &a) != nil {
		return p, false
	}
	a.tell(&p.Claim)
	return p, !w.bad
}
