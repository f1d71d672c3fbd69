package redisstore

import (
	"context"
	_ "embed" // for the scripts
	"slices"
	"time"

	"github.com/redis/rueidis"

	"github.com/holdfast-go/holdfast/store"
)

// The scripts of plain mode.
var (
	//go:embed plain.lua
	plainSource string
	//go:embed plain_take.lua
	takeSource string
	//go:embed plain_keep.lua
	keepPlainSource string
	//go:embed plain_leave.lua
	leavePlainSource string
	//go:embed plain_break.lua
	breakPlainSource string
	//go:embed plain_look.lua
	lookSource string

	takeScript       = newScript(plainSource + takeSource)
	keepPlainScript  = newScript(plainSource + keepPlainSource)
	leavePlainScript = newScript(plainSource + leavePlainSource)
	breakPlainScript = newScript(plainSource + breakPlainSource)
	lookScript       = newScript(plainSource + lookSource)
)

// Keep implements store.Store. What is held is prolonged if it is still there; who waits tries again. One that was held
// and is not there any more is gone: it never tries again.
func (p *Plain) Keep(ctx context.Context, cs []store.Claim) ([]store.Standing, error) {
	ttl := MaxTTL
	for i := range cs {
		if err := p.checkName(cs[i].Name); err != nil {
			return nil, err
		}
		ttl = min(ttl, cs[i].TTL)
	}
	if err := p.base.frame.Alive(ctx); err != nil || len(cs) == 0 {
		return nil, err
	}
	receipt := p.base.newReceipt()
	bounded, cancel := p.base.frame.Shared(ctx, ttl)
	defer cancel()
	within := receipt.into(bounded)
	failed := func(err error) error { return p.base.frame.Outcome(ctx, within, ttl, err) }
	w, err := p.base.wireTo(within, p.base.shelf, receipt != nil)
	if err != nil {
		return nil, failed(err)
	}
	r := renewal{p, within, w, cs, make([]store.Standing, len(cs)), failed}
	held, waiting := p.sort(cs)
	r.prolong(held)
	r.tryAgain(waiting)
	for i := range r.standings {
		if short := receipt.check(r.standings[i]); short != nil {
			r.standings[i] = store.Standing{Err: failed(short)}
		}
	}
	err = r.standings[0].Err
	if store.Final(err) || slices.ContainsFunc(r.standings, func(k store.Standing) bool { return k.Err == nil }) {
		return r.standings, nil
	}
	return nil, err
}

// A renewed claim is one of a Keep: its place there, and its bid.
type renewed struct {
	i      int
	bid    *bid
	before string // of a try
}

// sort tells those that wait from those that hold, or believe to, and begins a try of each that waits.
func (p *Plain) sort(cs []store.Claim) (held, waiting []renewed) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := range cs {
		b := p.find(&cs[i])
		switch {
		case b == nil:
			held = append(held, renewed{i, &bid{id: cs[i].ID, key: p.key(cs[i].Name), ticket: cs[i].Ticket}, ""})
		case b.waiting:
			waiting = append(waiting, renewed{i, b, b.begin()})
		default:
			held = append(held, renewed{i, b, ""})
		}
	}
	return held, waiting
}

// A renewal is one Keep.
type renewal struct {
	*Plain
	ctx       context.Context
	wire      *wire
	claims    []store.Claim
	standings []store.Standing
	failed    func(error) error // explains the error of a call
}

// prolong keeps what is held, in batches: in between the server serves others.
func (r *renewal) prolong(held []renewed) {
	var all []execution
	for chunk := range slices.Chunk(held, keepBatch) {
		var e execution
		for _, k := range chunk {
			want, more := k.bid.want()
			c := &r.claims[k.i]
			e.Keys = append(e.Keys, k.bid.key)
			e.Args = append(e.Args, want, more, millis(c.TTL+c.Grace))
		}
		all = append(all, e)
	}
	if len(all) == 0 {
		return
	}
	sent := time.Now()
	answers := keepPlainScript.RunAll(r.ctx, r.wire, all)
	for chunk := range slices.Chunk(held, keepBatch) {
		r.prolonged(chunk, answers[0], sent)
		answers = answers[1:]
	}
}

// prolonged reads the answer about some that are held.
func (r *renewal) prolonged(chunk []renewed, answer rueidis.RedisResult, sent time.Time) {
	still, err := answer.AsIntSlice()
	if err == nil && len(still) != len(chunk) {
		err = errShape
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for n, k := range chunk {
		switch {
		case err != nil:
			r.standings[k.i].Err = r.failed(err)
		case k.bid.ticket == 0: // its Join was never answered: whatever came of it, it holds nothing
		case still[n] == 1:
			r.standings[k.i] = r.held(k.bid, sent, r.claims[k.i].TTL)
		default:
			r.drop(k.bid) // and the standing is Gone
		}
	}
}

// tryAgain lets those try who wait.
func (r *renewal) tryAgain(waiting []renewed) {
	if len(waiting) == 0 {
		return
	}
	all := make([]execution, len(waiting))
	for n, k := range waiting {
		all[n] = r.trying(k.bid, k.before, &r.claims[k.i], r.wire)
	}
	sent := time.Now()
	for n, answer := range takeScript.RunAll(r.ctx, r.wire, all) {
		k := waiting[n]
		err := answer.Error()
		if err == nil {
			r.standings[k.i], err = r.tried(answer, sent, k.bid, &r.claims[k.i])
		} else {
			err = r.failed(err)
		}
		if err != nil {
			r.standings[k.i] = store.Standing{Err: err}
		}
	}
}
