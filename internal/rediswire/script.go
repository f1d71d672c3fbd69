package rediswire

import (
	"context"
	"crypto/sha1" //nolint:gosec // it is how Redis names scripts
	"encoding/hex"

	"github.com/redis/rueidis"
)

// A Script is a text that the server runs as one step, and the name that the server knows it by once it has seen it.
type Script struct{ text, name string }

// NewScript makes a script of its text.
func NewScript(text string) *Script {
	sum := sha1.Sum([]byte(text)) //nolint:gosec // see above
	return &Script{text, hex.EncodeToString(sum[:])}
}

// Text is its text.
func (s *Script) Text() string { return s.text }

// An Asker sends commands: a Wire, or what a store has made of one.
type Asker interface {
	Do(ctx context.Context, command rueidis.Completed) rueidis.RedisResult
	DoAll(ctx context.Context, commands []rueidis.Completed) []rueidis.RedisResult
	B() rueidis.Builder
}

// B builds commands.
func (w *Wire) B() rueidis.Builder { return w.Client.B() }

// Run runs the script. A server that was restarted, or told to forget its scripts, is sent the text.
func (s *Script) Run(ctx context.Context, w Asker, keys, args []string) rueidis.RedisResult {
	b := w.B()
	answer := w.Do(ctx, b.Evalsha().Sha1(s.name).Numkeys(int64(len(keys))).Key(keys...).Arg(args...).Build())
	if isNoScript(answer) {
		answer = w.Do(ctx, b.Eval().Script(s.text).Numkeys(int64(len(keys))).Key(keys...).Arg(args...).Build())
	}
	return answer
}

// An Execution is one of several that are sent at once.
type Execution struct{ Keys, Args []string }

// RunAll runs the script several times and does not wait for one before it sends the next.
func (s *Script) RunAll(ctx context.Context, w Asker, all []Execution) []rueidis.RedisResult {
	commands := make([]rueidis.Completed, len(all))
	for i, e := range all {
		commands[i] = w.B().Evalsha().Sha1(s.name).Numkeys(int64(len(e.Keys))).Key(e.Keys...).Arg(e.Args...).Build()
	}
	answers := w.DoAll(ctx, commands)
	for i, answer := range answers {
		if isNoScript(answer) {
			answers[i] = s.Run(ctx, w, all[i].Keys, all[i].Args)
		}
	}
	return answers
}

func isNoScript(answer rueidis.RedisResult) bool {
	err := answer.Error()
	if err == nil {
		return false
	}
	e, ok := rueidis.IsRedisErr(err)
	return ok && e.IsNoScript()
}
