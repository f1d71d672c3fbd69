package redisstore

import (
	"context"
	"time"

	"github.com/holdfast-go/holdfast/store"
)

var detachScript = newScript("detach.lua")

// Detach implements store.Detacher.
func (s *lines) Detach(ctx context.Context, c store.Claim, as store.ID, d time.Duration) (store.Status, error) {
	return s.transfer(ctx, &c, c.ID, as, d, 0, nil)
}

// Attach implements store.Detacher. While a startup delay lasts it returns a Fault that is not final: the claim may
// have been attached by another client before the server lost data.
func (s *lines) Attach(ctx context.Context, c store.Claim, from store.ID) (store.Status, error) {
	at := s.topology.keysFor(s.keys.line(c.Name))
	return s.transfer(ctx, &c, from, c.ID, c.TTL, c.Grace, []string{at.channel + " " + s.about(&c)})
}

// transfer gives the claim from in the queue of c the ID to, with a ttl and a grace. client has the last argument of
// detach.lua, if any.
func (s *lines) transfer(ctx context.Context, c *store.Claim, from, to store.ID, ttl, grace time.Duration,
	client []string) (store.Status, error) {
	call, err := s.frame.Begin(ctx, c.Name, c.TTL)
	if err != nil {
		return store.Status{}, err
	}
	defer call.End()
	line := s.keys.line(c.Name)
	at := s.topology.keysFor(line)
	answer, try := s.runScript(call.Context, detachScript, at, true, func(w *connection) execution {
		args := []string{w.run, millis(s.guard), from.String(), to.String(), millis(ttl), millis(grace)}
		return execution{Keys: []string{line, at.run}, Args: append(args, client...)}
	})
	if try.err != nil {
		return store.Status{}, call.Outcome(try.err)
	}
	c.TTL = ttl
	status, err := s.joined(answer, try.sent, c, at)
	if err == nil {
		status, err = try.counted(status)
	}
	return status, call.Outcome(err)
}
