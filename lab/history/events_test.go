package history

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// Waits, arrivals and operations are read as they were recorded, also those of a process that has not come to their
// end.
func TestOtherEvents(t *testing.T) {
	dir := t.TempDir()
	r := create(t, dir, "p")
	who := Who{"p", "c", "o"}
	before := Now()
	first := r.Wait(Wait{Who: who, Resource: "x", Kind: Semaphore, Units: 1, Limit: 3})
	first.Granted(7 << 8)
	first.GaveUp() // only the first end counts
	r.Wait(Wait{Who: who, Resource: "x", Kind: Shared}).GaveUp()
	r.Wait(Wait{Who: who, Resource: "y", Kind: Exclusive})
	r.Arrive(Arrival{Who: who, Resource: "x", Kind: Exclusive, Ticket: 7, Interval: Interval{before, before + 5}})
	update := r.Call(Operation{Who: who, Register: "r", Token: 7 << 8, Update: true})
	update.Sends("", "a")
	update.Wrote()
	r.Call(Operation{Who: who, Register: "r"}).Read("a")
	late := r.Call(Operation{Who: who, Register: "r", Update: true})
	late.Sends("a", "b")
	late.Refused()
	r.Call(Operation{Who: who, Register: "r", Update: true}).Sends("a", "c")
	must(t, r.Close())
	h, err := LoadDir(dir)
	must(t, err)

	waits := []Wait{
		{Who: who, Resource: "x", Kind: Semaphore, Units: 1, Limit: 3, Granted: true, Token: 7 << 8},
		{Who: who, Resource: "x", Kind: Shared},
		{Who: who, Resource: "y", Kind: Exclusive, Open: true},
	}
	operations := []Operation{
		{Who: who, Register: "r", Token: 7 << 8, Update: true, New: "a", Outcome: Acknowledged},
		{Who: who, Register: "r", Old: "a", Outcome: Acknowledged},
		{Who: who, Register: "r", Update: true, Old: "a", New: "b", Outcome: Refused},
		{Who: who, Register: "r", Update: true, Old: "a", New: "c"},
	}
	if len(h.Waits) != len(waits) || len(h.Operations) != len(operations) || len(h.Arrivals) != 1 {
		t.Fatalf("read %+v", h)
	}
	for i, w := range h.Waits {
		if waits[i].Interval = w.Interval; w != waits[i] || w.Begin < before || w.End < w.Begin {
			t.Errorf("read %+v, want %+v", w, waits[i])
		}
	}
	for i, o := range h.Operations {
		if operations[i].Interval = o.Interval; o != operations[i] || o.End < o.Begin {
			t.Errorf("read %+v, want %+v", o, operations[i])
		}
	}
	if a := h.Arrivals[0]; a.Who != who || a.Ticket != 7 || a.Begin != before || a.End != before+5 {
		t.Errorf("read %+v", a)
	}
}

// A hold has the latest Until that its holder has told, never a later one than that, and when its loss was found.
func TestUntilAndLoss(t *testing.T) {
	dir := t.TempDir()
	r := create(t, dir, "p")
	believing := true
	until := time.Now().Add(time.Hour)
	b, _ := r.BeginUntil(Hold{Resource: "x", Kind: Exclusive}, func() bool { return believing },
		func() time.Time { return until })
	left := time.Until(until)
	latest := Now() + Instant(left) // what passes between the two makes it later
	believing = false
	b.Check()
	found := Now()
	b.End()
	holds := closeAndRead(t, dir, r)
	if h := holds[0]; h.Until > latest || latest.Sub(h.Until) > time.Minute || h.Lost == 0 || h.Lost > found ||
		h.End > h.Lost {
		t.Errorf("recorded %+v, with an until of at most %d and a loss that was found before %d", h, latest, found)
	}
}

func TestReadRefusesOtherEvents(t *testing.T) {
	const head = `{"history":2,"process":"p","clock":"CLOCK_MONOTONIC","boot":"b"}` + "\n"
	const wait = `{"event":"wait","id":1,"at":5,"resource":"x","kind":"exclusive"}` + "\n"
	const call = `{"event":"call","id":1,"at":5,"resource":"x","update":true}` + "\n"
	for name, test := range map[string]struct{ text, want string }{
		"a wait, in the first format": {strings.Replace(head, "2", "1", 1) + wait, "line 2: an event"},
		"a hold, in the first format": {strings.Replace(head, "2", "1",
			1) + `{"event":"begin","id":1,"at":5,"kind":"shared"}` + "\n", ""},
		"a format that never was":   {strings.Replace(head, "2", "0", 1), "in format 0"},
		"a grant nobody waited for": {head + `{"event":"grant","id":1,"at":5}` + "\n", "line 2: an event"},
		"a wait granted twice": {head + wait + strings.Repeat(`{"event":"grant","id":1,"at":6}`+"\n", 2),
			"line 4: an event"},
		"a wait that ends too early": {head + wait + `{"event":"give up","id":1,"at":4}` + "\n",
			"a wait that ends 1ns before"},
		"an operation that ends unbegun": {head + `{"event":"done","id":1,"at":5}` + "\n", "line 2: an event"},
		"an operation begun twice":       {head + call + call, "line 3: an event"},
		"an operation that ends early": {head + call + `{"event":"sent","id":1,"at":4}` + "\n",
			"an operation that ends 1ns before"},
		"a claim acknowledged too early": {head + `{"event":"arrive","id":1,"at":5,"acked":4}` + "\n",
			"acknowledged 1ns before"},
	} {
		path := filepath.Join(t.TempDir(), fmt.Sprint("1", suffix))
		must(t, os.WriteFile(path, []byte(test.text), 0o600))
		_, err := Load(path)
		if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want %q in it", name, err, test.want)
		}
	}
}
