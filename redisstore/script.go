package redisstore

import (
	"context"
	"crypto/sha1" //nolint:gosec // it is how Redis names scripts
	_ "embed"     // for the scripts
	"encoding/hex"
	"strings"

	"github.com/redis/rueidis"
)

// The scripts. Their headers say what they expect and what holds; line.lua has the layout of the keys.
var (
	//go:embed line.lua
	lineSource string
	//go:embed join.lua
	joinSource string
	//go:embed keep.lua
	keepSource string
	//go:embed leave.lua
	leaveSource string
	//go:embed break.lua
	breakSource string
	//go:embed list.lua
	listSource string

	joinScript  = newScript(joinSource)
	keepScript  = newScript(keepSource)
	leaveScript = newScript(leaveSource)
	breakScript = newScript(breakSource)
	listScript  = newScript(listSource)
)

// A script is a text that the server runs as one step, and the name that the server knows it by once it has seen it.
type script struct{ text, name string }

// newScript puts line.lua where the source asks for it. What stands before that line runs without it: a function that
// is defined there costs nothing on the quick way.
func newScript(source string) *script {
	text := strings.Replace(source, "--#include line.lua\n", lineSource, 1)
	sum := sha1.Sum([]byte(text)) //nolint:gosec // see above
	return &script{text, hex.EncodeToString(sum[:])}
}

// run runs the script. A server that was restarted, or told to forget its scripts, is sent the text.
func (s *script) run(ctx context.Context, w *wire, keys, args []string) rueidis.RedisResult {
	b := w.client.B()
	answer := w.do(ctx, b.Evalsha().Sha1(s.name).Numkeys(int64(len(keys))).Key(keys...).Arg(args...).Build())
	if isNoScript(answer) {
		answer = w.do(ctx, b.Eval().Script(s.text).Numkeys(int64(len(keys))).Key(keys...).Arg(args...).Build())
	}
	return answer
}

// An execution is one of several that are sent at once.
type execution struct{ keys, args []string }

// runAll runs the script several times and does not wait for one before it sends the next.
func (s *script) runAll(ctx context.Context, w *wire, all []execution) []rueidis.RedisResult {
	commands := make([]rueidis.Completed, len(all))
	for i, e := range all {
		commands[i] = w.client.B().Evalsha().Sha1(s.name).Numkeys(int64(len(e.keys))).Key(e.keys...).Arg(e.args...).Build()
	}
	answers := w.doAll(ctx, commands)
	for i, answer := range answers {
		if isNoScript(answer) {
			answers[i] = s.run(ctx, w, all[i].keys, all[i].args)
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
