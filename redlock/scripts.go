package redlock

import (
	"embed"
	"strconv"
	"time"

	"github.com/holdfast-go/holdfast/internal/rediswire"
	"github.com/holdfast-go/holdfast/redlock/internal/vote"
)

// What a node keeps beside the locks, whose keys are prefix and name as they are. Nothing else of Holdfast's has these
// names: redisstore's keys for no prefix begin with holdfast:{}: too, and go on otherwise.
const (
	recordKey  = "holdfast:{}:redlock"        // the record, with the mark
	leftPrefix = "holdfast:{}:redlock:left:"  // a tombstone; the value follows
	freedTopic = "holdfast:{}:redlock:freed:" // the channel on which it is told that a key is free; the key follows
)

// The scripts. Each is the method of vote.Node of the same name, and a script that differs from it is wrong. Their
// headers say what they expect; node.lua has the record, and holder.lua what a lock's key looks like.
var (
	//go:embed *.lua
	sources embed.FS

	scripts = [...]*rediswire.Script{
		vote.Take: newScript(vote.Take), vote.Keep: newScript(vote.Keep), vote.Leave: newScript(vote.Leave),
		vote.Raise: newScript(vote.Raise), vote.Look: newScript(vote.Look), vote.Admit: newScript(vote.Admit),
		vote.Init: newScript(vote.Init), vote.Trust: newScript(vote.Trust), vote.Break: newScript(vote.Break),
	}
)

func newScript(op vote.Op) *rediswire.Script {
	return rediswire.LoadScript(sources, op.String()+".lua")
}

// A call is one run of a script.
type call struct {
	script     *rediswire.Script
	keys, args []string
}

// newCall is how a request is put to a node. Run is what the server called itself (INFO's run_id) on this very
// connection.
func newCall(r *vote.Request, run string) call {
	head := recordHead(r.MaxTTL, run)
	c := call{script: scripts[r.Op]}
	switch r.Op {
	case vote.Take:
		c.keys = []string{recordKey, r.Key, leftPrefix + r.Value}
		c.args = []string{head, r.Value, millis(r.TTL), number(r.Ticket)}
	case vote.Keep:
		return newKeep([]*vote.Request{r}, run)
	case vote.Leave:
		c.keys = []string{recordKey, r.Key}
		if r.Bury {
			c.keys = append(c.keys, leftPrefix+r.Value)
		}
		topic := ""
		if r.Tell {
			topic = freedTopic + r.Key
		}
		c.args = []string{head, r.Value, topic, millis(r.TTL)}
	case vote.Raise:
		c.keys = []string{recordKey, r.Key}
		c.args = []string{head, r.Value, number(r.Ticket)}
	case vote.Look:
		c.keys, c.args = []string{recordKey}, []string{head}
		if r.Key != "" { // an Admitter asks after the node alone
			c.keys = append(c.keys, r.Key)
		}
	case vote.Admit:
		c.keys = []string{recordKey}
		c.args = []string{head, r.Episode.Run, micros(r.Episode.Since), number(r.Ticket)}
	case vote.Break:
		c.keys = []string{recordKey, r.Key}
		c.args = []string{head, number(r.Ticket), leftPrefix, millis(r.TTL), freedTopic + r.Key}
	default: // Init, Trust
		c.keys, c.args = []string{recordKey}, []string{head}
	}
	return c
}

// newKeep puts several requests to keep to a node in one run. All are of one deployment. If a key stands there twice,
// both are judged by what was there before; at most one is kept.
func newKeep(rs []*vote.Request, run string) call {
	c := call{
		script: scripts[vote.Keep],
		keys:   append(make([]string, 0, 1+2*len(rs)), recordKey),
		args:   append(make([]string, 0, 1+3*len(rs)), recordHead(rs[0].MaxTTL, run)),
	}
	for _, r := range rs {
		c.keys = append(c.keys, r.Key, leftPrefix+r.Value)
		c.args = append(c.args, r.Value, number(r.Ticket), millis(r.TTL))
	}
	return c
}

// recordHead is what the record begins with of a node that votes: see node.lua.
func recordHead(maxTTL time.Duration, run string) string {
	return "1 " + micros(maxTTL) + " " + run + " v "
}

// millis is rounded up: a node never counts less than it was asked for.
func millis(d time.Duration) string {
	return strconv.FormatInt(int64((d+time.Millisecond-1)/time.Millisecond), 10)
}

func micros(d time.Duration) string { return strconv.FormatInt(d.Microseconds(), 10) }

func number(n uint64) string { return strconv.FormatUint(n, 10) }
