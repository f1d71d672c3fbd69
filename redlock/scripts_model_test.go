package redlock

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/servers"
	"github.com/holdfast-go/holdfast/redlock/internal/vote"
)

// How much is played.
const (
	seeds = 40
	steps = 250 // of each
)

// TestScriptsAgainstModel plays random requests, losses and clocks to the scripts on a real server and to vote.Node,
// which is what they are to be, and compares every answer and all that is kept.
//
// To play one again: go test -run 'TestScriptsAgainstModel/seed=7$' ./redlock
func TestScriptsAgainstModel(t *testing.T) {
	b := newBench(t)
	seen, played := map[string]int{}, 0
	for seed := range seeds {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			played++
			if err := b.play(seed, nil, seen); err != nil {
				t.Fatal(err)
			}
		})
	}
	if t.Failed() || played < seeds {
		return
	}
	// What was never played was not compared.
	for _, answer := range []string{
		"take granted", "take denied", "take novote", "take buried", "take mismatch", "take newer",
		"keep kept", "keep repaired", "keep denied", "keep buried", "keep repaired without a vote",
		"leave left", "leave left, told", "raise granted", "raise novote", "raise absent", "raise toohigh",
		"look absent", "look denied", "look absent without a record",
		"admit granted", "admit refused", "init granted", "init refused", "trust granted",
		"break granted, told", "break absent",
	} {
		if seen[answer] == 0 {
			t.Errorf("no seed had %q", answer)
		}
	}
	if t.Failed() {
		for _, answer := range slices.Sorted(maps.Keys(seen)) {
			t.Logf("%5d %s", seen[answer], answer)
		}
	}
}

// TestModelFindsMutants spoils one rule of the scripts at a time. The comparison must notice each.
func TestModelFindsMutants(t *testing.T) {
	b := newBench(t)
	for _, m := range []struct{ rule, old, spoilt string }{
		{"a record of another run ends the vote", "if storedRun == run or now < storedTrusted then", "if true then"},
		{"a restart that is trusted keeps the vote", "storedRun == run or now < storedTrusted", "storedRun == run"},
		{"a restart is trusted once", "if storedRun == run then since, trusted", "if true then since, trusted"},
		{"a restart is not trusted for ever", "or now < storedTrusted then", "or storedTrusted > 0 then"},
		{"a clock that was set back begins the quarantine anew", "math.min(since, now)", "since"},
		{"max-ttl is one for all", "if storedMaxTTL ~= maxTTL then", "if false then"},
		{"a newer record is left alone", "if not storedMaxTTL then return 'newer' end",
			"if not storedMaxTTL then storedMaxTTL, storedRun, state, storedMark = maxTTL, run, 'v', '1' end"},
		{"without a record the mark is ahead of the clock", "now + 60000000", "now"},
		{"all of a value is compared", "value .. ' ticket '", "string.sub(text, 1, #value + 8)"},
		{"a node in quarantine grants nothing", "if not votes then return 'novote' .. status end\nif not found[2]",
			"if not found[2]"},
		{"a take respects what is no string", "ticket), 'NX', 'PX', ARGV[3]", "ticket), 'PX', ARGV[3]"},
		{"a take respects a tombstone", "if found[3] and", "if false and"},
		{"a take that is repeated prolongs", "redis.call('PEXPIRE', KEYS[2], ARGV[3])", ""},
		{"a take with a ticket raises the mark", "if ticket ~= '0' then redis.call('SET', KEYS[1], head .. ticket " +
			".. tail) end", ""},
		{"a take accepts a ticket above the mark", "number > tonumber(mark) and", ""},
		{"a take accepts a ticket that is credible", "and credible(number)", ""},
		{"a take that is repeated keeps its ticket", "local _, ticket = splitTicket(found[2])",
			"local ticket = ARGV[4]"},
		{"a keep respects others", "full, 'NX', 'PX', px", "full, 'PX', px"},
		{"a keep respects a tombstone", "if tombstone and redis", "if false and redis"},
		{"a keep prolongs", "redis.call('PEXPIRE', key, px)", ""},
		{"a keep brings its ticket", "if text ~= full then redis.call('SET', key, full, 'KEEPTTL') end", ""},
		{"a leave deletes only its own", "if owns(found[2], ARGV[2]) then redis.call('DEL'",
			"if found[2] then redis.call('DEL'"},
		{"a leave is told", "redis.pcall('PUBLISH', ARGV[3], '')", ""},
		{"a leave is told only if it was asked to", "if ARGV[3] ~= '' then redis", "if true then redis"},
		{"a tombstone is not renewed", "KEYS[3], '', 'NX', 'PX'", "KEYS[3], '', 'PX'"},
		{"a raise is for who has the key", "if not owns(found[2], ARGV[2]) then return 'absent'",
			"if not found[2] then return 'absent'"},
		{"a ticket must be credible", "and ticket <= time[1] * 1000000 + time[2] + 86400000000", ""},
		{"a raise does not lower the mark", "if ticket > tonumber(mark) then redis", "if true then redis"},
		{"a raise leaves the end where it is", "withTicket(ARGV[2], ARGV[3]), 'KEEPTTL'",
			"withTicket(ARGV[2], ARGV[3])"},
		{"a look leaves no trace", "if redis.call('EXISTS', KEYS[1]) == 0 then", "if false then"},
		{"a quarantine must be served", "string.format(' q %s %s %s 0', mark, ARGV[2], ARGV[3])\nif votes or wait " +
			"> 0 or", "string.format(' q %s %s %s %d', mark, ARGV[2], ARGV[3], wait)\nif votes or"},
		{"an admission is for one quarantine", "or not same", ""},
		{"an admission brings the mark", "if tonumber(ARGV[4]) > tonumber(mark) then mark = ARGV[4] end", ""},
		{"an admission does not lower the mark", "if tonumber(ARGV[4]) > tonumber(mark) then mark = ARGV[4] end",
			"mark = ARGV[4]"},
		{"an admission keeps the trust", "string.format(' 0 %d', trusted)", "' 0 1'"},
		{"only a fresh node is marked", "if record and record ~= ARGV[2] then return 'refused' .. status end", ""},
		{"a trusted restart is written down", "redis.call('SET', KEYS[1], string.gsub(head, 'v $', 't ')",
			"redis.call('ECHO', string.gsub(head, 'v $', 't ')"},
		{"a break is of one ticket", "ticket ~= ARGV[2]", "false"},
		{"a break leaves a tombstone", "redis.call('SET', ARGV[3] .. value, '', 'NX', 'PX', ARGV[4])", ""},
		{"a break is told", "redis.pcall('PUBLISH', ARGV[5], '')", ""},
	} {
		t.Run(m.rule, func(t *testing.T) {
			met := false
			spoil := func(text string) string {
				met = met || strings.Contains(text, m.old)
				return strings.Replace(text, m.old, m.spoilt, 1)
			}
			noticed := false
			for seed := 0; seed < seeds && !noticed; seed++ {
				err := b.play(seed, spoil, nil)
				if failed := servers.RedisError(""); errors.As(err, &failed) {
					t.Fatalf("what is spoilt does not even run: %v", failed)
				}
				noticed = err != nil
			}
			if !noticed {
				t.Error("no seed noticed")
			}
			if !met {
				t.Errorf("no script has %q", m.old)
			}
		})
	}
}

// compare puts requests to the script, and then to the model with the time that the script had.
func (p *player) compare(rs []*vote.Request) error {
	c := newCall(rs[0], p.run)
	if rs[0].Op == vote.Keep {
		c = newKeep(rs, p.run)
	}
	for _, r := range rs {
		p.note("%+v", *r)
	}
	out, err := p.run1(c)
	if err != nil {
		return err
	}
	got, err := readAnswers(out.answer, len(rs))
	if err != nil {
		return err
	}
	told := ""
	for i, r := range rs {
		want, freed := p.node.Do(out.now, p.run, r)
		if want.Left > aeon/2 {
			want.Left = -time.Millisecond
		}
		if freed {
			told += freedTopic + r.Key + "\n"
		}
		p.note("  at %v: %+v", out.now, got[i])
		if d := want.Left - got[i].Left; d < -out.slack || d > out.slack {
			return fmt.Errorf("it has %v left, and in the model %v", got[i].Left, want.Left)
		}
		if want.Left = got[i].Left; want != got[i] {
			return fmt.Errorf("the model says: %+v", want)
		}
		p.count(r, &want, freed)
	}
	if out.told != told {
		return fmt.Errorf("it was told on %q, and in the model on %q", out.told, told)
	}
	return p.compareKept(out)
}

// An outcome is what came of one run of a script.
type outcome struct {
	now    time.Duration // which the script took for the time
	slack  time.Duration // how far the server may have read other times
	told   string        // the channels on which it published, a line for each
	answer any
	kept   map[string]kept // all keys
}

// kept is what is under one key.
type kept struct {
	text string
	end  int64 // -1: none
}

// watched is a script that also says what it did. Its time stands still. It does nothing at all after a deadline, which
// is ARGV's last: so no key expires while it is in doubt which of the two saw it first.
const watched = `
local real, time, told = redis, redis.call('TIME'), ''
if time[1] * 1000 + time[2] / 1000 > tonumber(table.remove(ARGV)) then return 'late' end
local redis = {
	call = function(name, ...)
		if name == 'TIME' then return time end
		return real.call(name, ...)
	end,
	pcall = function(name, ...)
		if name == 'PUBLISH' then told = told .. ... .. '\n' end
		return real.pcall(name, ...)
	end,
}
local function script()
SCRIPT
end
local answer, all = script(), {}
for _, key in ipairs(real.call('KEYS', '*')) do
	local text = real.pcall('GET', key)
	if type(text) == 'table' then text = '' end
	all[#all + 1] = {key, text, real.call('PEXPIRETIME', key)}
end
local last = real.call('TIME')
return {time[1] * 1000000 + time[2], (last[1] - time[1]) * 1000000 + last[2] - time[2], told, answer, all}`

// run1 runs a script at a time when nothing is about to expire.
func (p *player) run1(c call) (*outcome, error) {
	text := c.script.Text()
	if p.spoil != nil {
		text = p.spoil(text)
	}
	for {
		deadline := strconv.FormatInt(p.quiet(), 10)
		command := slices.Concat(
			[]string{"EVAL", strings.Replace(watched, "SCRIPT", text, 1), strconv.Itoa(len(c.keys))}, c.keys, c.args,
			[]string{deadline})
		reply, err := p.conn.Do(command...)
		if err != nil {
			return nil, err
		}
		if reply != "late" {
			return readOutcome(reply)
		}
	}
}

// quiet steps the clock until nothing expires for a while, and says for how long, in milliseconds since 1970.
func (p *player) quiet() int64 {
	const margin, least = 5, 100
	for {
		now := p.now().Milliseconds()
		deadline := now + time.Minute.Milliseconds()
		near := func(end int64) {
			if end >= now-margin {
				deadline = min(deadline, end-margin)
			}
		}
		for _, e := range p.node.Keys {
			near(e.End)
		}
		for _, end := range p.node.Tombs {
			near(end)
		}
		if deadline >= now+least {
			return deadline
		}
		p.clock.Step(least * time.Millisecond)
	}
}

func readOutcome(reply any) (*outcome, error) {
	list, ok := reply.([]any)
	if !ok || len(list) != 5 {
		return nil, fmt.Errorf("that is not what a watched script answers: %v", reply)
	}
	now, took := list[0].(int64), list[1].(int64)
	o := &outcome{
		now:    time.Duration(now) * time.Microsecond,
		slack:  time.Duration(took)*time.Microsecond + time.Millisecond,
		told:   list[2].(string),
		answer: list[3],
		kept:   map[string]kept{},
	}
	for _, one := range list[4].([]any) {
		one := one.([]any)
		o.kept[one[0].(string)] = kept{one[1].(string), one[2].(int64)}
	}
	return o, nil
}

// compareKept compares all that is kept. From then on the model has the ends that the server has.
func (p *player) compareKept(o *outcome) error {
	ms := o.now.Milliseconds()
	found := func(key, text string, end int64) (int64, error) {
		k, there := o.kept[key]
		delete(o.kept, key)
		switch {
		case !there && ms > end:
			return end, nil
		case !there || ms > end || k.text != text:
			return 0, fmt.Errorf("under %q is %q (%v), and in the model %q with %d ms left", key, k.text, there, text,
				end-ms)
		case k.end < 0:
			k.end = end
			if end-ms < aeon.Milliseconds()/2 {
				return 0, fmt.Errorf("%q has no end", key)
			}
		}
		if d := time.Duration(k.end-end) * time.Millisecond; d < -o.slack || d > o.slack {
			return 0, fmt.Errorf("%q ends %v later than in the model", key, d)
		}
		return k.end, nil
	}
	var err error
	for key, e := range p.node.Keys {
		text := e.Value
		if e.Ticket != 0 {
			text += " ticket " + number(e.Ticket)
		}
		if e.End, err = found(key, text, e.End); err != nil {
			return err
		}
		p.node.Keys[key] = e
	}
	for value, end := range p.node.Tombs {
		if p.node.Tombs[value], err = found(leftPrefix+value, "", end); err != nil {
			return err
		}
	}
	if p.node.Record != nil {
		if _, err := found(recordKey, recordText(p.node.Record), (o.now + aeon).Milliseconds()); err != nil {
			return err
		}
	}
	if len(o.kept) > 0 {
		return fmt.Errorf("only the server has %v", o.kept)
	}
	return nil
}

// recordText is how a record is written.
func recordText(r *vote.Record) string {
	if r.Format == 2 {
		return "2 and so on"
	}
	head := fmt.Sprintf("1 %d %s ", r.MaxTTL.Microseconds(), r.Run)
	switch {
	case !r.Votes:
		return head + fmt.Sprintf("q %d %d %d", r.Mark, r.Since.Microseconds(), r.Trusted.Microseconds())
	case r.Trusted != 0:
		return head + fmt.Sprintf("t %d 0 %d", r.Mark, r.Trusted.Microseconds())
	}
	return head + fmt.Sprintf("v %d", r.Mark)
}

// count notes which answers there were.
func (p *player) count(r *vote.Request, a *vote.Answer, freed bool) {
	if p.seen == nil {
		return
	}
	answer := fmt.Sprintf("%v %v", r.Op, a.Code)
	p.seen[answer]++
	switch {
	case freed:
		p.seen[answer+", told"]++
	case p.node.Record == nil:
		p.seen[answer+" without a record"]++
	case !a.Votes:
		p.seen[answer+" without a vote"]++
	}
}
