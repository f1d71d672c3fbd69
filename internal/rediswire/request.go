package rediswire

import (
	"strconv"

	"github.com/redis/rueidis"
)

// A request is what one call sends: commands, or one run of a script.
type request struct {
	commands []rueidis.Completed
	words    [][]string // the same for a connection of the store's own

	script     *Script
	withText   bool // the server does not know the script by its name
	keys, args []string
}

// count returns how many replies it gets.
func (r *request) count() int {
	if r.script != nil {
		return 1
	}
	return len(r.commands) + len(r.words)
}

// appendTo appends the request as it is written to the server.
func (r *request) appendTo(b []byte) []byte {
	if r.script == nil {
		for i := range r.commands {
			b = appendCommand(b, r.commands[i].Commands()...)
		}
		for _, words := range r.words {
			b = appendCommand(b, words...)
		}
		return b
	}
	command, script := "EVALSHA", r.script.name
	if r.withText {
		command, script = "EVAL", r.script.text
	}
	b = appendArrayHead(b, 3+len(r.keys)+len(r.args))
	b = appendWords(b, command, script, strconv.Itoa(len(r.keys)))
	return appendWords(appendWords(b, r.keys...), r.args...)
}

// appendCommand appends a command of these words.
func appendCommand(b []byte, words ...string) []byte {
	return appendWords(appendArrayHead(b, len(words)), words...)
}

// build returns the request as commands of rueidis'.
func (r *request) build(b rueidis.Builder) []rueidis.Completed {
	switch keys := int64(len(r.keys)); {
	case r.script == nil:
		return r.commands
	case r.withText:
		return []rueidis.Completed{b.Eval().Script(r.script.text).Numkeys(keys).Key(r.keys...).Arg(r.args...).Build()}
	default:
		return []rueidis.Completed{b.Evalsha().Sha1(r.script.name).Numkeys(keys).Key(r.keys...).Arg(r.args...).Build()}
	}
}
