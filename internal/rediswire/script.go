package rediswire

import (
	"context"
	"crypto/sha1" //nolint:gosec // it is how Redis names scripts
	"embed"
	"encoding/hex"
	"regexp"
	"slices"

	"github.com/redis/rueidis"
)

// A Script is a text that the server runs as one step, and the name that the server knows it by once it has seen it.
type Script struct{ text, name string }

// NewScript returns the script with a text.
func NewScript(text string) *Script {
	sum := sha1.Sum([]byte(text)) //nolint:gosec // see above
	return &Script{text, hex.EncodeToString(sum[:])}
}

// LoadScript returns the script of these embedded files, one after the other. A line --#include FILE stands for that
// file's text.
func LoadScript(from embed.FS, files ...string) *Script {
	read := func(file string) string {
		text, err := from.ReadFile(file)
		if err != nil {
			panic(err) // it was not embedded
		}
		return string(text)
	}
	text := ""
	for _, file := range files {
		text += read(file)
	}
	return NewScript(include.ReplaceAllStringFunc(text, func(line string) string {
		return read(include.FindStringSubmatch(line)[1])
	}))
}

var include = regexp.MustCompile(`(?m)^--#include (.+)\n`)

// Text returns its text.
func (s *Script) Text() string { return s.text }

// A Doer sends commands: a Connection, or what a store has made of one.
type Doer interface {
	Do(ctx context.Context, command rueidis.Completed) Reply
	DoAll(ctx context.Context, commands []rueidis.Completed) []Reply
	B() rueidis.Builder
}

// Run runs the script by its name. A server that does not have the script, because it was restarted or its scripts were
// flushed, is sent the text. Over a connection of the store's own, Run keeps nothing of keys and args, so that they
// cost no memory.
func (s *Script) Run(ctx context.Context, over Doer, keys, args []string) (reply Reply) {
	for withText := false; ; withText = true {
		if w := ownConnection(over); w != nil {
			reply = w.own.run(ctx, &request{script: s, withText: withText, keys: keys, args: args})
			w.Heed(&reply)
		} else {
			r := request{script: s, withText: withText, keys: slices.Clone(keys), args: slices.Clone(args)}
			reply = over.Do(ctx, r.build(over.B())[0])
		}
		if withText || !isNoScript(&reply) {
			return reply
		}
	}
}

// ownConnection returns the Connection of a Doer, if its connection is the store's own, and else nil.
func ownConnection(over Doer) *Connection {
	if w, ok := over.(interface{ itself() *Connection }); ok {
		if w := w.itself(); w.own != nil {
			return w
		}
	}
	return nil
}

// An Execution has the keys and arguments of one run of a script.
type Execution struct{ Keys, Args []string }

// RunAll runs the script several times, and sends all runs before it waits for a reply.
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
