package redlock

import (
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/servers"
	"github.com/holdfast-go/holdfast/redlock/internal/vote"
)

// A tester runs scripts on one server, as one user.
type tester struct {
	t    *testing.T
	conn *servers.Conn
	run  string
}

func newTester(t *testing.T, server *servers.RedisServer, login ...string) *tester {
	t.Helper()
	conn, err := server.Dial()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	s := &tester{t, conn, "run0"}
	if len(login) > 0 {
		s.do(slices.Concat([]string{"AUTH"}, login)...)
	}
	return s
}

func (s *tester) do(command ...string) any {
	s.t.Helper()
	reply, err := s.conn.Do(command...)
	if err != nil {
		s.t.Fatalf("%v: %v", command[0], err)
	}
	return reply
}

// ask puts a request of a deployment to the server.
func (s *tester) ask(r vote.Request) (vote.Answer, error) {
	r.MaxTTL = testMaxTTL
	reply, err := s.eval(newCall(&r, s.run))
	if err != nil {
		return vote.Answer{}, err
	}
	return readAnswer(reply)
}

func (s *tester) eval(c call) (any, error) {
	return s.conn.Do(slices.Concat([]string{"EVAL", c.script.Text(), strconv.Itoa(len(c.keys))}, c.keys, c.args)...)
}

func (s *tester) must(r vote.Request, want vote.Code) vote.Answer {
	s.t.Helper()
	a, err := s.ask(r)
	if err != nil {
		s.t.Fatalf("%+v: %v", r, err)
	}
	if a.Code != want {
		s.t.Fatalf("%+v: %+v, want %v", r, a, want)
	}
	return a
}

// A lock is one key, and to others it looks as the published algorithm has it.
func TestKeyOfALock(t *testing.T) {
	s := newTester(t, servers.Redis(t))
	mark := s.must(vote.Request{Op: vote.Init}, vote.Granted).Mark
	s.must(vote.Request{Op: vote.Take, Key: "lock:a", Value: "x.1", TTL: time.Minute}, vote.Granted)
	if got := s.do("GET", "lock:a"); got != "x.1" {
		t.Errorf("a lock that was taken is %q", got)
	}
	if got := s.do("SET", "lock:a", "another", "NX", "PX", "1000"); got != nil {
		t.Errorf("another library took it: %v", got)
	}
	s.must(vote.Request{Op: vote.Raise, Key: "lock:a", Value: "x.1", Ticket: mark + 1}, vote.Granted)
	if got, want := s.do("GET", "lock:a"), "x.1 ticket "+number(mark+1); got != want {
		t.Errorf("a lock that has its ticket is %q, want %q", got, want)
	}
	if left := s.do("PTTL", "lock:a").(int64); left <= 0 || left > time.Minute.Milliseconds() {
		t.Errorf("it has %d ms left", left)
	}
	if got := s.do("DBSIZE"); got != int64(2) {
		t.Errorf("the record and the lock are %v keys", got)
	}
	s.must(vote.Request{Op: vote.Leave, Key: "lock:a", Value: "x.1"}, vote.Left)
	if got := s.do("SET", "lock:a", "another", "NX", "PX", "60000"); got != "OK" {
		t.Errorf("another library did not get it: %v", got)
	}
	a := s.must(vote.Request{Op: vote.Take, Key: "lock:a", Value: "x.2", TTL: time.Minute}, vote.Denied)
	if a.Holder != "another" || a.Ticket != 0 || a.Left <= 0 || a.Left > time.Minute {
		t.Errorf("the other one is described as %+v", a)
	}
}

// What the scripts do for a lock that no other client wants. Each command counts: there are five nodes.
func TestCommandsOfALock(t *testing.T) {
	server := servers.Redis(t)
	s := newTester(t, server)
	mark := s.must(vote.Request{Op: vote.Init}, vote.Granted).Mark
	// Of the raise, when the take has brought it.
	r := vote.Request{Key: "lock:a", Value: "x.1", TTL: time.Minute, Ticket: mark + 1, Tell: true}
	for _, step := range []struct {
		op   vote.Op
		code vote.Code
		want string
	}{
		{vote.Take, vote.Granted, "MGET TIME SET SET"},
		{vote.Raise, vote.Granted, "MGET TIME SET"},
		{vote.Keep, vote.Kept, "MGET PEXPIRE"},
		{vote.Leave, vote.Left, "MGET DEL PUBLISH"},
	} {
		r.Op = step.op
		monitor := newTester(t, server)
		monitor.do("MONITOR")
		s.must(r, step.code)
		s.do("ECHO", "enough")
		if got := strings.Join(monitor.inside(), " "); got != step.want {
			t.Errorf("%s was %s, want %s", step.op, got, step.want)
		}
	}
}

// inside gives the commands of scripts that a monitor sees.
func (s *tester) inside() (commands []string) {
	s.t.Helper()
	for {
		line, err := s.conn.Receive()
		if err != nil {
			s.t.Fatal(err)
		}
		text := line.(string) // TIME [DB CLIENT] "COMMAND" ...
		if strings.Contains(text, "\"enough\"") {
			return commands
		}
		if _, command, ok := strings.Cut(text, " lua] \""); ok {
			command, _, _ = strings.Cut(command, "\"")
			commands = append(commands, strings.ToUpper(command))
		}
	}
}

// Whoever waits is told, on a channel of the key.
func TestFreedIsTold(t *testing.T) {
	server := servers.Redis(t)
	s, ear := newTester(t, server), newTester(t, server)
	s.must(vote.Request{Op: vote.Init}, vote.Granted)
	ear.do("SUBSCRIBE", freedTopic+"lock:a", "the end")
	if _, err := ear.conn.Receive(); err != nil { // of the second channel
		t.Fatal(err)
	}
	for _, tell := range []bool{true, false, true} {
		s.must(vote.Request{Op: vote.Take, Key: "lock:a", Value: "x.1", TTL: time.Minute}, vote.Granted)
		s.must(vote.Request{Op: vote.Leave, Key: "lock:a", Value: "x.1", Tell: tell}, vote.Left)
	}
	s.do("PUBLISH", "the end", "")
	for _, want := range []string{freedTopic + "lock:a", freedTopic + "lock:a", "the end"} {
		message, err := ear.conn.Receive()
		if err != nil {
			t.Fatal(err)
		}
		if got := message.([]any)[1]; got != want {
			t.Fatalf("told on %q, want %q", got, want)
		}
	}
}

// The smallest ACL is enough, and whoever may not publish can still leave.
func TestSmallestACL(t *testing.T) {
	const all = "resetkeys ~lock:* ~holdfast:{}:redlock* -@all +eval +evalsha +mget +set +del +exists +pexpire " +
		"+pttl +time"
	server := servers.Redis(t, servers.ACL(
		"user default off",
		"user whole on >secret resetchannels &holdfast:{}:redlock:freed:* "+all+" +publish",
		"user mute on >secret resetchannels "+all,
	))
	whole, mute := newTester(t, server, "whole", "secret"), newTester(t, server, "mute", "secret")
	mark := whole.must(vote.Request{Op: vote.Init}, vote.Granted).Mark
	for i, s := range []*tester{whole, mute} {
		r := vote.Request{Key: "lock:a", Value: "x." + strconv.Itoa(i), TTL: time.Minute, Bury: true, Tell: true}
		for _, step := range []struct {
			op   vote.Op
			code vote.Code
		}{
			{vote.Take, vote.Granted},
			{vote.Take, vote.Granted},
			{vote.Raise, vote.Granted},
			{vote.Keep, vote.Kept},
			{vote.Look, vote.Denied},
			{vote.Leave, vote.Left},
			{vote.Look, vote.Absent},
			{vote.Take, vote.Buried},
			{vote.Keep, vote.Buried},
			{vote.Admit, vote.Refused},
			{vote.Init, vote.Refused},
			{vote.Trust, vote.Granted},
		} {
			mark++
			r.Op, r.Ticket = step.op, mark
			s.must(r, step.code)
		}
		r.Value += "0"
		for _, step := range []struct {
			op   vote.Op
			code vote.Code
		}{{vote.Keep, vote.Repaired}, {vote.Break, vote.Granted}, {vote.Keep, vote.Buried}} {
			r.Op = step.op
			s.must(r, step.code)
		}
	}
}

// A server that is full takes nothing, and whoever holds goes on: also who has yet to bring its ticket.
func TestFullServer(t *testing.T) {
	server := servers.Redis(t)
	s := newTester(t, server)
	mark := s.must(vote.Request{Op: vote.Init}, vote.Granted).Mark
	r := vote.Request{Key: "lock:a", Value: "x.1", TTL: time.Minute, Ticket: mark + 1}
	r.Op = vote.Take
	s.must(r, vote.Granted)
	for _, op := range []vote.Op{vote.Keep, vote.Leave} { // the server knows the scripts
		other := r
		other.Op, other.Value = op, "x.2"
		if _, err := s.ask(other); err != nil {
			t.Fatal(err)
		}
	}
	s.do("CONFIG", "SET", "maxmemory", "1")
	other := r
	other.Key = "lock:b"
	if a, err := s.ask(other); err == nil || !strings.Contains(err.Error(), "OOM") {
		t.Errorf("a take was answered with %+v, %v", a, err)
	}
	r.Op, other.Op = vote.Keep, vote.Keep
	if a, err := s.ask(other); err == nil {
		t.Errorf("what was missing was kept: %+v", a)
	}
	s.must(r, vote.Kept)
	r.MaxTTL, other.MaxTTL = testMaxTTL, testMaxTTL
	reply, err := s.eval(newKeep([]*vote.Request{&other, &r}, s.run))
	if err != nil {
		t.Fatal(err)
	}
	if both, err := readAnswers(reply, 2); err != nil || both[0].Code != vote.Repaired || both[1].Code != vote.Kept {
		t.Errorf("one that is missing and one that is held were kept: %v, %v", both, err)
	}
	r.Op = vote.Look
	if a := s.must(r, vote.Denied); a.Ticket != r.Ticket {
		t.Errorf("the ticket is %d, want %d", a.Ticket, r.Ticket)
	}
	r.Op = vote.Leave
	s.must(r, vote.Left)
	r.Op = vote.Look
	s.must(r, vote.Absent)
}

// What a node says may be anything.
func TestReadAnswer(t *testing.T) {
	for _, good := range []struct {
		reply any
		want  vote.Answer
	}{
		{"granted v 1763198523000000", vote.Answer{Code: vote.Granted, Votes: true, Mark: 1763198523000000}},
		{"granted v 5 6", vote.Answer{Code: vote.Granted, Votes: true, Mark: 5, Ticket: 6}},
		{[]any{"kept v 5"}, vote.Answer{Code: vote.Kept, Votes: true, Mark: 5}},
		{"novote q 5 run 7 0", vote.Answer{Code: vote.NoVote, Mark: 5, Episode: vote.Episode{Run: "run",
			Since: 7 * time.Microsecond}}},
		{"absent n 30", vote.Answer{Code: vote.Absent, Wait: 30 * time.Microsecond}},
		{"denied v 5 10 6 a value", vote.Answer{Code: vote.Denied, Votes: true, Mark: 5, Left: 10 * time.Millisecond,
			Ticket: 6, Holder: "a value"}},
		{"denied v 5 -1 0 ", vote.Answer{Code: vote.Denied, Votes: true, Mark: 5, Left: -time.Millisecond}},
		{"denied v 5 9223372036854775807 0 ", vote.Answer{Code: vote.Denied, Votes: true, Mark: 5,
			Left: time.Duration(mostMillis) * time.Millisecond}},
		{"mismatch 60", vote.Answer{Code: vote.Mismatch, MaxTTL: 60 * time.Microsecond}},
		{"newer", vote.Answer{Code: vote.Newer}},
	} {
		if got, err := readAnswer(good.reply); err != nil || got != good.want {
			t.Errorf("%q: %+v, %v", good.reply, got, err)
		}
	}
	for _, bad := range []any{
		nil, int64(1), "", "OK", "granted", "granted v", "granted v x", "granted v -1", "granted v 5 x",
		"granted v 5 6 7", "granted z 5",
		"novote q 5 run 7", "denied v 5 10", "denied v 5 -2 0 x", "mismatch", "newer 1", "absent n 9223372036854775808",
		[]any{}, []any{"newer", "newer"}, []any{nil},
	} {
		if got, err := readAnswer(bad); err == nil {
			t.Errorf("%q: %+v", bad, got)
		}
	}
	if got, err := readAnswers("newer", 2); err != nil || len(got) != 2 || got[1].Code != vote.Newer {
		t.Errorf("one answer for two: %v, %v", got, err)
	}
	if got, err := readAnswers([]any{"newer"}, 2); err == nil {
		t.Errorf("one of two answers: %v", got)
	}
}
