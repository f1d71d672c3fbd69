package vote

import (
	"testing"
	"time"
)

const (
	testMax = time.Second
	testNow = 1_000_000 * time.Second
)

// A bench is a node under test, with its clock and its run.
type bench struct {
	*testing.T
	Node
	now time.Duration
	run string
}

func newBench(t *testing.T) *bench {
	b := &bench{T: t, now: testNow, run: "one"}
	b.want(Request{Op: Init}, Granted)
	return b
}

// want asks the node, and fails the test if the answer is another.
func (b *bench) want(r Request, code Code) Answer {
	b.Helper()
	if r.MaxTTL == 0 {
		r.MaxTTL = testMax
	}
	if r.TTL == 0 {
		r.TTL = testMax
	}
	if r.Key == "" {
		r.Key = "lock"
	}
	a, _ := b.Do(b.now, b.run, &r)
	if a.Code != code {
		b.Fatalf("%+v: answer %+v, want code %d", r, a, code)
	}
	return a
}

func TestTake(t *testing.T) {
	b := newBench(t)
	b.want(Request{Op: Take, Value: "a"}, Granted)
	b.now += 400 * time.Millisecond
	if a := b.want(Request{Op: Take, Value: "b"}, Denied); a.Holder != "a" || a.Left != 600*time.Millisecond {
		t.Errorf("%+v", a)
	}
	b.want(Request{Op: Take, Value: "a"}, Granted) // again, and for longer
	b.now += testMax
	b.want(Request{Op: Take, Value: "b"}, Denied)
	b.now += time.Millisecond
	b.want(Request{Op: Take, Value: "b"}, Granted)
}

// A ticket that comes along with a take is accepted if it is above the mark and credible, and only with the key.
func TestTakeWithTicket(t *testing.T) {
	b := newBench(t)
	before := b.Record.Mark
	take := func(value string, ticket uint64, want Code, accepted, mark uint64) {
		t.Helper()
		was := b.Record.Mark
		a := b.want(Request{Op: Take, Value: value, Ticket: ticket}, want)
		if want == Granted && a.Ticket != accepted || b.Record.Mark != mark {
			t.Errorf("%s with %d: accepted %d, then the mark is %d, want %d and %d", value, ticket, a.Ticket,
				b.Record.Mark, accepted, mark)
		}
		if a.Mark != was {
			t.Errorf("%s is told of mark %d, and it was %d", value, a.Mark, was)
		}
	}
	take("a", before+5, Granted, before+5, before+5)
	take("a", before+9, Granted, before+5, before+5) // again: it has one
	take("b", before+9, Denied, 0, before+5)
	b.want(Request{Op: Leave, Value: "a"}, Left)
	take("b", before+5, Granted, 0, before+5) // another has it already
	b.want(Request{Op: Leave, Value: "b"}, Left)
	take("c", micros(b.now+believable)+1, Granted, 0, before+5)
	b.want(Request{Op: Leave, Value: "c"}, Left)
	take("d", MaxTicket+1, Granted, 0, before+5)
	b.want(Request{Op: Leave, Value: "d"}, Left)
	take("e", 0, Granted, 0, before+5)
	b.want(Request{Op: Leave, Value: "e", Bury: true}, Left)
	take("e", before+9, Buried, 0, before+5)
	take("f", micros(b.now+believable), Granted, micros(b.now+believable), micros(b.now+believable))
}

func TestLeave(t *testing.T) {
	b := newBench(t)
	b.want(Request{Op: Take, Value: "a"}, Granted)
	b.want(Request{Op: Leave, Value: "b"}, Left)
	b.want(Request{Op: Take, Value: "b"}, Denied)
	b.want(Request{Op: Leave, Value: "a", Bury: true}, Left)
	b.want(Request{Op: Take, Value: "a"}, Buried)
	b.want(Request{Op: Keep, Value: "a"}, Buried)
	b.now += testMax / 2
	b.want(Request{Op: Leave, Value: "a", Bury: true}, Left)
	b.now += testMax/2 + time.Millisecond // a tombstone is not renewed
	b.want(Request{Op: Take, Value: "a"}, Granted)
	b.now += 2 * testMax
	if n := b.Residue(b.now); n != 0 {
		t.Errorf("%d things are left", n)
	}
}

// A release is told where the key was and where it was not: those who wait listen at one node only.
func TestLeavePublishes(t *testing.T) {
	b := newBench(t)
	b.want(Request{Op: Take, Value: "a"}, Granted)
	for _, value := range []string{"b", "a", "a"} {
		for _, tell := range []bool{false, true} {
			if _, freed := b.Do(b.now, b.run, &Request{Op: Leave, MaxTTL: testMax, Key: "lock", Value: value,
				Tell: tell}); freed != tell {
				t.Errorf("%s leaves, to be told %t: %t", value, tell, freed)
			}
		}
	}
}

func TestKeepRepairs(t *testing.T) {
	b := newBench(t)
	b.want(Request{Op: Keep, Value: "a", Ticket: 7}, Repaired)
	b.want(Request{Op: Keep, Value: "b"}, Denied)
	if a := b.want(Request{Op: Keep, Value: "a", Ticket: 7}, Kept); !a.Votes {
		t.Error("it does not vote")
	}
	b.Record = nil
	if a := b.want(Request{Op: Keep, Value: "a"}, Kept); a.Votes {
		t.Error("it votes without a record")
	}
}

func TestRaise(t *testing.T) {
	b := newBench(t)
	mark := b.Record.Mark
	b.want(Request{Op: Raise, Value: "a", Ticket: mark + 1}, Absent)
	b.want(Request{Op: Take, Value: "a"}, Granted)
	b.want(Request{Op: Raise, Value: "a", Ticket: mark + 5}, Granted)
	if got := b.want(Request{Op: Look}, Denied); got.Ticket != mark+5 || got.Mark != mark+5 {
		t.Errorf("%+v", got)
	}
	b.want(Request{Op: Raise, Value: "a", Ticket: mark + 2}, Granted) // other names may have raised the mark
	if b.Record.Mark != mark+5 {
		t.Error("the mark fell")
	}
	b.want(Request{Op: Raise, Value: "a", Ticket: micros(b.now+believable) + 1}, TooHigh)
	b.want(Request{Op: Raise, Value: "a", Ticket: MaxTicket + 1}, TooHigh)
}

func TestBreak(t *testing.T) {
	b := newBench(t)
	b.want(Request{Op: Take, Value: "a"}, Granted)
	b.want(Request{Op: Break, Ticket: 0}, Absent)
	ticket := b.Record.Mark + 1
	b.want(Request{Op: Raise, Value: "a", Ticket: ticket}, Granted)
	b.want(Request{Op: Break, Ticket: ticket + 1}, Absent)
	b.want(Request{Op: Break, Ticket: ticket}, Granted)
	b.want(Request{Op: Keep, Value: "a"}, Buried) // it does not come back
}

// A node that lost its data, or may have, goes through its quarantine.
func TestQuarantine(t *testing.T) {
	for name, lose := range map[string]func(*bench){
		"flushed":            func(b *bench) { b.Node = Node{} },
		"restarted":          func(b *bench) { b.run = "two" },
		"restarted, no data": func(b *bench) { b.Node, b.run = Node{}, "two" },
		"trusted for too long": func(b *bench) {
			b.want(Request{Op: Trust}, Granted)
			b.now += trustFor
			b.run = "two"
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.want(Request{Op: Take, Value: "a"}, Granted)
			lose(b)
			a := b.want(Request{Op: Take, Value: "b"}, NoVote)
			if a.Wait != testMax || a.NeedsMark() {
				t.Errorf("%+v", a)
			}
			episode := a.Episode
			b.want(Request{Op: Raise, Value: "a", Ticket: b.Record.Mark + 1}, NoVote)
			b.now += testMax - 1
			b.want(Request{Op: Admit, Episode: episode}, Refused)
			b.now++
			if a = b.want(Request{Op: Take, Value: "b"}, NoVote); !a.NeedsMark() {
				t.Errorf("%+v", a)
			}
			b.want(Request{Op: Admit, Episode: Episode{"two", 1}}, Refused) // a mark for another quarantine
			mark := b.Record.Mark + 9
			b.want(Request{Op: Admit, Episode: episode, Ticket: mark}, Granted)
			b.want(Request{Op: Admit, Episode: episode, Ticket: mark}, Refused)
			if a = b.want(Request{Op: Look, Key: "another"}, Absent); !a.Votes || a.Mark != mark {
				t.Errorf("%+v", a)
			}
		})
	}
}

func TestClockSetBack(t *testing.T) {
	b := newBench(t)
	b.run = "two"
	b.want(Request{Op: Take, Value: "a"}, NoVote)
	b.now -= time.Hour
	if a := b.want(Request{Op: Take, Value: "a"}, NoVote); a.Wait != testMax {
		t.Errorf("it waits for %v", a.Wait)
	}
}

func TestTrust(t *testing.T) {
	b := newBench(t)
	b.want(Request{Op: Take, Value: "a"}, Granted)
	b.want(Request{Op: Trust}, Granted)
	b.run = "two"
	b.want(Request{Op: Take, Value: "b"}, Denied)
	b.run = "three" // it is good for one restart
	b.want(Request{Op: Take, Value: "b"}, NoVote)
}

func TestInit(t *testing.T) {
	b := newBench(t)
	b.want(Request{Op: Init}, Refused)
	b.run = "two"
	b.want(Request{Op: Init}, Refused)
	b.want(Request{Op: Take, Value: "a"}, NoVote)
}

func TestWrongClient(t *testing.T) {
	b := newBench(t)
	if a := b.want(Request{Op: Take, Value: "a", MaxTTL: 2 * testMax}, Mismatch); a.MaxTTL != testMax {
		t.Errorf("%+v", a)
	}
	b.Record.Format++
	b.want(Request{Op: Take, Value: "a"}, Newer)
	if len(b.Keys) != 0 {
		t.Error("it was touched")
	}
}

// Who looks at a fresh node does not begin its quarantine.
func TestLookWritesNothing(t *testing.T) {
	b := &bench{T: t, now: testNow}
	if a := b.want(Request{Op: Look}, Absent); a.Votes || a.NeedsMark() || b.Record != nil {
		t.Errorf("%+v, %+v", a, b.Record)
	}
}
