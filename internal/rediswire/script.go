package rediswire

import (
	"context"
	"crypto/sha1" //nolint:gosec // it is how Redis names scripts
	"encoding/hex"

	"github.com/redis/rueidis"
)

// A Script is a text that the server runs as one step, and the name that the server knows it by once it has seen it.
type Script struct{ text, name string }

// NewScript returns the script with a text.
func NewScript(text string) *Script {
	sum := sha1.Sum([]byte(text)) //nolint:gosec // see above
	return &Script{text, hex.EncodeToString(sum[:])}
}

// Text returns its text.
func (s *Script) Text() string { return s.text }

// A Doer sends commands: a Wire, or what a store has made of one.
type Doer interface {
	Do(ctx context.Context, command rueidis.Completed) Reply
	DoAll(ctx context.Context, commands []rueidis.Completed) []Reply
	B() rueidis.Builder
}

// A runner is a Doer that can send a script without a command of rueidis' around it.
type runner interface {
	run(ctx context.Context, r *request) Reply
}

// Run runs the script. A server that was restarted, or told to forget its scripts, is sent the text.
func (s *Script) Run(ctx context.Context, over Doer, keys, args []string) Reply {
	r := request{script: s, keys: keys, args: args}
	reply := runOver(ctx, over, &r)
	if isNoScript(&reply) {
		r.withText = true
		reply = runOver(ctx, over, &r)
	}
	return reply
}

func runOver(ctx context.Context, over Doer, r *request) Reply {
	if direct, ok := over.(runner); ok {
		return direct.run(ctx, r)
	}
	return over.Do(ctx, r.build(over.B())[0])
}

// An Execution is one of several that are sent at once.
type Execution struct{ Keys, Args []string }

// RunAll runs the script several times and does not wait for one before it sends the next.
func (s *Script) RunAll(ctx context.Context, over Doer, all []Execution) []Reply {
	if len(all) == 1 {
		return []Reply{s.Run(ctx, over, all[0].Keys, all[0].Args)}
	}
	commands := make([]rueidis.Completed, len(all))
	for i, e := range all {
		r := request{script: s, keys: e.Keys, args: e.Args}
		commands[i] = r.build(over.B())[0]
	}
	replies := over.DoAll(ctx, commands)
	for i := range replies {
		if isNoScript(&replies[i]) {
			replies[i] = s.Run(ctx, over, all[i].Keys, all[i].Args)
		}
	}
	return replies
}

func isNoScript(reply *Reply) bool {
	if reply.kind != '-' {
		return false
	}
	refusal, ok := IsRefusal(reply.Error())
	return ok && refusal.isNoScript()
}
