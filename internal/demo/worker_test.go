package demo

import (
	"bufio"
	"encoding/json"
	"io"
	"strings"
	"testing"
	"time"
)

// A desk is a coordinator's side of a worker that runs inside the test.
type desk struct {
	t     *testing.T
	in    *io.PipeWriter
	says  *json.Decoder
	ended chan error
}

func employ(t *testing.T, first string) *desk {
	t.Helper()
	in, word := io.Pipe()
	said, out := io.Pipe()
	d := &desk{t, word, json.NewDecoder(said), make(chan error, 1)}
	go func() {
		d.ended <- Work(t.Context(), in, out)
		in.Close()
		out.Close()
	}()
	if _, err := io.WriteString(word, first+"\n"); err != nil {
		t.Fatal(err)
	}
	return d
}

func (o *order) line(t *testing.T) string {
	t.Helper()
	text, err := json.Marshal(o)
	must(t, err)
	return string(text)
}

// hear expects a report of this kind.
func (d *desk) hear(want reportKind) report {
	d.t.Helper()
	var r report
	if err := d.says.Decode(&r); err != nil {
		d.t.Fatal(err)
	}
	if r.Kind != want {
		d.t.Fatalf("the worker says %+v, want %q", r, want)
	}
	return r
}

func (d *desk) goOn() {
	d.t.Helper()
	if _, err := io.WriteString(d.in, "\n"); err != nil {
		d.t.Fatal(err)
	}
}

func (d *desk) end() error {
	d.in.Close()
	return <-d.ended
}

func TestWorkerSells(t *testing.T) {
	for _, kind := range []lockKind{noLock, naiveLock, holdfastLock} {
		t.Run(string(kind), func(t *testing.T) {
			path := newStock(t, 2)
			o := order{
				Worker: 7,
				Stock:  path,
				Lock:   kind,
				Fence:  kind == holdfastLock,
				Store:  "memory:",
				Name:   "stock",
				TTL:    time.Minute,
			}
			before := now()
			d := employ(t, o.line(t))
			d.hear(ready)
			d.goOn()
			for item := 2; item > 0; item-- {
				d.hear(waiting)
				believes := d.hear(paying)
				if until := believes.Hold.End; believes.Item != item || (until == forever) != (kind != holdfastLock) {
					t.Errorf("before it pays it says %+v, want item %d and an end of a lease's only", believes, item)
				}
				d.goOn()
				done := d.hear(sold)
				if done.Item != item || done.Hold.Begin < before || done.Hold.End < done.Hold.Begin ||
					done.Hold.End > now() {
					t.Errorf("it says %+v of item %d", done, item)
				}
				before = done.Hold.End
			}
			d.hear(waiting)
			d.hear(soldOut)
			if err := d.end(); err != nil {
				t.Error(err)
			}
			s := openTestStock(t, path, false)
			s.checkLeft(t, 0, 0)
			s.checkSales(t, 2)
		})
	}
}

// TestLateWorker: when the fence was raised meanwhile, the worker says that it was refused, and goes on.
func TestLateWorker(t *testing.T) {
	path := newStock(t, 1)
	o := &order{Stock: path, Lock: holdfastLock, Fence: true, Store: "memory:", Name: "stock", TTL: time.Minute}
	d := employ(t, o.line(t))
	d.hear(ready)
	d.goOn()
	d.hear(waiting)
	d.hear(paying)
	s := openTestStock(t, path, true)
	s.checkLeft(t, 1<<62, 1) // a holder from far in the future
	d.goOn()
	if r := d.hear(refused); r.Item != 1 {
		t.Errorf("it says %+v", r)
	}
	d.hear(waiting)
	d.hear(late)
	d.in.Close()
	for d.says.Decode(&report{}) == nil { // until it has ended
	}
	if err := <-d.ended; err == nil {
		t.Error("it ended well though the coordinator is gone")
	}
	s.checkSales(t, 0)
}

// TestWorkerEndsWithItsInput at each place where it can wait.
func TestWorkerEndsWithItsInput(t *testing.T) {
	steps := []reportKind{ready, waiting, paying}
	for i, last := range steps {
		d := employ(t, (&order{Stock: newStock(t, 5), Lock: naiveLock, Name: "stock", TTL: time.Hour}).line(t))
		for _, step := range steps[:i+1] {
			d.hear(step)
			if step != last && step != waiting {
				d.goOn()
			}
		}
		go func() { // it may still say that it pays
			for d.says.Decode(&report{}) == nil { // until it has ended
			}
		}()
		if err := d.end(); err == nil {
			t.Errorf("it was %s when its input ended, and ended with %v", last, err)
		}
	}
}

func TestWorkerWithoutOrder(t *testing.T) {
	for input, want := range map[string]string{
		"":                    "started by holdfast demo",
		"sell everything\n":   "order of a demo worker is invalid",
		`{"Lock":"magic"}`:    "unknown kind of lock",
		`{"Lock":"holdfast"}`: "begins with a scheme",
		`{"Lock":"holdfast","Store":"abacus:","TTL":1}`: "no store is registered",
	} {
		err := Work(t.Context(), bufio.NewReader(strings.NewReader(input)), io.Discard)
		if err == nil || !strings.Contains(err.Error(), want) || !strings.HasPrefix(err.Error(), "holdfast: ") {
			t.Errorf("%q: got %v, want an error with %q", input, err, want)
		}
	}
}
