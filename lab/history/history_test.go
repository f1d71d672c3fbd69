package history

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/leaks"
)

// In a child with this set, the tests are one program that holds something and waits to be killed.
const childEnv = "HOLDFAST_TEST_HISTORY_CHILD"

func TestMain(m *testing.M) {
	if dir := os.Getenv(childEnv); dir != "" {
		child(dir)
	}
	leaks.Main(m)
}

// child records one hold that ends and one that goes on, and asks about the latter until it is killed.
func child(dir string) {
	r, err := Create(dir, "child")
	if err != nil {
		panic(err)
	}
	first, _ := r.Begin(Hold{Resource: "first", Kind: Exclusive, Token: 1 << 8}, nil)
	first.End()
	second, _ := r.Begin(Hold{Resource: "second", Kind: Exclusive, Token: 2 << 8}, nil)
	before := Now()
	for second.last.Sub(before) < 2*stillEvery {
		second.Check()
	}
	fmt.Println("recorded")
	select {}
}

func create(t *testing.T, dir, process string) *Recorder {
	t.Helper()
	r, err := Create(dir, process)
	must(t, err)
	return r
}

func closeAndRead(t *testing.T, dir string, rs ...*Recorder) []Hold {
	t.Helper()
	for _, r := range rs {
		must(t, r.Close())
	}
	holds, err := ReadDir(dir)
	must(t, err)
	return holds
}

func TestWhatIsWrittenIsRead(t *testing.T) {
	dir := t.TempDir()
	a, b := create(t, dir, "a"), create(t, dir, "b/../\"b\"")
	want := []Hold{
		{Who: Who{"a", "client", "owner"}, Resource: "x y\n\"z\"", Kind: Exclusive, Token: 1<<62 + 1},
		{Who: Who{"b/../\"b\"", "", ""}, Resource: "s", Kind: Semaphore, Units: 2, Limit: 3},
		{Who: Who{"a", "", ""}, Resource: "r", Kind: Shared, Token: 3<<8 | 1<<7},
	}
	for i, r := range []*Recorder{a, b, a} {
		belief, ok := r.Begin(want[i], nil)
		if !ok {
			t.Fatal("a hold that is believed was not recorded")
		}
		if i != 2 {
			belief.End()
			belief.End()
		}
		want[i].Open = i == 2
	}
	got := closeAndRead(t, dir, a, b)
	if len(got) != len(want) {
		t.Fatalf("%d holds, want %d", len(got), len(want))
	}
	for i := range want {
		if i > 0 && got[i].Begin < got[i-1].End {
			t.Errorf("%v begins before %v ends", got[i], got[i-1])
		}
		if want[i].Interval = got[i].Interval; got[i] != want[i] {
			t.Errorf("read %+v, want %+v", got[i], want[i])
		}
	}
}

// Never more is recorded than was believed.
func TestBeliefIsNotStretched(t *testing.T) {
	dir := t.TempDir()
	r := create(t, dir, "p")
	if _, ok := r.Begin(Hold{Resource: "x", Kind: Exclusive}, func() bool { return false }); ok {
		t.Error("a hold began that nobody believed")
	}
	var lastTrue Instant
	believing := true
	b, _ := r.Begin(Hold{Resource: "x", Kind: Exclusive}, func() bool {
		if believing {
			lastTrue = Now()
		}
		return believing
	})
	if !b.Check() {
		t.Error("the belief ended early")
	}
	believing = false
	afterLoss := Now()
	if b.Check() {
		t.Error("the belief goes on after the loss")
	}
	believing = true
	if b.Check() {
		t.Error("the belief came back")
	}
	b.End()
	holds := closeAndRead(t, dir, r)
	if len(holds) != 1 || holds[0].End > lastTrue || holds[0].End > afterLoss || holds[0].Open {
		t.Errorf("recorded %+v, and it was last believed at %d", holds, lastTrue)
	}
}

// The times of two processes can be compared, and what a process has written is there when it is killed.
func TestProcesses(t *testing.T) {
	dir := t.TempDir()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childEnv+"="+dir)
	cmd.Stderr = os.Stderr
	pipe, err := cmd.StdoutPipe()
	must(t, err)
	r := create(t, dir, "parent")
	around, _ := r.Begin(Hold{Resource: "around", Kind: Shared}, nil)
	before := Now()
	must(t, cmd.Start())
	says := bufio.NewScanner(pipe)
	if !says.Scan() || says.Text() != "recorded" {
		t.Errorf("the child says %q", says.Text())
	}
	after := Now()
	must(t, cmd.Process.Kill())
	_ = cmd.Wait() // it was killed
	around.End()
	holds := closeAndRead(t, dir, r)
	if len(holds) != 3 {
		t.Fatalf("%d holds, want 3: %v", len(holds), holds)
	}
	for i, name := range []string{"around", "first", "second"} {
		h := holds[i]
		if h.Resource != name || h.Open != (name == "second") {
			t.Errorf("hold %d is %+v, want that of %s", i, h, name)
		}
		if name != "around" && (h.Process != "child" || h.Begin < before || h.End > after) {
			t.Errorf("the child's hold of %s is from %d to %d, and the child ran from %d to %d",
				name, h.Begin, h.End, before, after)
		}
	}
	if lasted := holds[2].End.Sub(holds[2].Begin); lasted < stillEvery {
		t.Errorf("the hold that goes on is known for %v only", lasted)
	}
}

func TestManyGoroutines(t *testing.T) {
	dir := t.TempDir()
	r := create(t, dir, "p")
	const goroutines, each = 8, 200
	var wg sync.WaitGroup
	for g := range goroutines {
		wg.Go(func() {
			for range each {
				b, _ := r.Begin(
					Hold{Who: Who{Owner: fmt.Sprint(g)}, Resource: strings.Repeat("x", 300), Kind: Shared},
					nil,
				)
				b.Check()
				b.End()
			}
		})
	}
	wg.Wait()
	holds := closeAndRead(t, dir, r)
	if len(holds) != goroutines*each {
		t.Errorf("%d holds, want %d", len(holds), goroutines*each)
	}
	for _, h := range holds {
		if h.Open || h.End < h.Begin {
			t.Errorf("%+v", h)
		}
	}
}

func TestRecordingFails(t *testing.T) {
	r := create(t, t.TempDir(), "p")
	must(t, r.file.Close())
	b, _ := r.Begin(Hold{Resource: "x", Kind: Exclusive}, nil)
	b.End()
	if err := r.Close(); !errors.Is(err, os.ErrClosed) || !strings.HasPrefix(err.Error(), "holdfast: ") {
		t.Errorf("Close of a history that is not complete: %v", err)
	}
	if _, err := Create(filepath.Join(t.TempDir(), "no such folder"), "p"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("Create where there is no folder: %v", err)
	}
}

func TestReadRefuses(t *testing.T) {
	const head = `{"history":2,"process":"p","clock":"CLOCK_MONOTONIC","boot":"b"}` + "\n"
	const begin = `{"event":"begin","id":1,"at":5,"resource":"x","kind":"exclusive"}` + "\n"
	for name, test := range map[string]struct {
		files []string
		want  string // in the error; empty: it is read
	}{
		"a good history":       {[]string{head + begin + `{"event":"end","id":1,"at":6}` + "\n"}, ""},
		"an incomplete line":   {[]string{head + begin + `{"event":"en`}, ""},
		"an incomplete header": {[]string{head, `{"hist`}, ""},
		"an empty file":        {[]string{"", head}, ""},
		"a newer format":       {[]string{strings.Replace(head, "2", "3", 1)}, "line 1: a history in format 3"},
		"another boot":         {[]string{head, strings.Replace(head, `"b"`, `"c"`, 1)}, "cannot be compared"},
		"another clock": {[]string{head, strings.Replace(head, "CLOCK_MONOTONIC", "sundial", 1)},
			"cannot be compared"},
		"no JSON":              {[]string{head + "begin\n"}, "line 2"},
		"an unknown event":     {[]string{head + begin + `{"event":"pause","id":1}` + "\n"}, "line 3: an event"},
		"an end without begin": {[]string{head + `{"event":"end","id":1}` + "\n"}, "line 2: an event"},
		"begun twice":          {[]string{head + begin + begin}, "line 3: an event"},
		"an end too early": {[]string{head + begin + `{"event":"end","id":1,"at":4}` + "\n"},
			"ends 1ns before it begins"},
		"an unknown kind": {[]string{head + strings.Replace(begin, "exclusive", "vague", 1)}, "unknown kind"},
		"no units":        {[]string{head + strings.Replace(begin, "exclusive", "semaphore", 1)}, "0 of 0 units"},
		"a bad token":     {[]string{head + strings.Replace(begin, `"at"`, `"token":"x","at"`, 1)}, "line 2"},
	} {
		dir := t.TempDir()
		for i, text := range test.files {
			must(t, os.WriteFile(filepath.Join(dir, fmt.Sprint(i)+suffix), []byte(text), 0o600))
		}
		_, err := ReadDir(dir)
		switch {
		case test.want == "" && err != nil:
			t.Errorf("%s: %v", name, err)
		case test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)):
			t.Errorf("%s: %v, want %q in it", name, err, test.want)
		}
	}
}

func TestOverlap(t *testing.T) {
	for _, test := range []struct {
		a, b Interval
		want time.Duration
		ok   bool
	}{
		{Interval{0, 10}, Interval{10, 20}, 0, false},
		{Interval{0, 10}, Interval{9, 20}, 1, true},
		{Interval{0, 10}, Interval{2, 5}, 3, true},
		{Interval{0, 10}, Interval{0, 10}, 10, true},
		{Interval{0, 10}, Interval{5, 5}, 0, true},
		{Interval{0, 10}, Interval{0, 0}, 0, false},
		{Interval{0, 10}, Interval{10, 10}, 0, false},
		{Interval{5, 5}, Interval{5, 5}, 0, false},
	} {
		for _, pair := range [][2]Interval{{test.a, test.b}, {test.b, test.a}} {
			if d, ok := pair[0].Overlap(pair[1]); d != test.want || ok != test.ok {
				t.Errorf("%v and %v: %v, %t, want %v, %t", pair[0], pair[1], d, ok, test.want, test.ok)
			}
		}
	}
}

func TestClockRuns(t *testing.T) {
	if runtime.GOOS == "linux" && clockName != "CLOCK_MONOTONIC" {
		t.Errorf("the clock is the %s", clockName)
	}
	start, realStart := Now(), time.Now()
	for time.Since(realStart) < 5*time.Millisecond {
		runtime.Gosched()
	}
	if passed := Now().Sub(start); passed < 5*time.Millisecond {
		t.Errorf("%v passed, want at least 5ms", passed)
	}
}

func BenchmarkRecord(b *testing.B) {
	r, err := Create(b.TempDir(), "p")
	if err != nil {
		b.Fatal(err)
	}
	defer r.Close()
	h := Hold{Who: Who{Client: "c", Owner: "o"}, Resource: "resource", Kind: Exclusive, Token: 1 << 20}
	for b.Loop() {
		belief, _ := r.Begin(h, nil)
		belief.End()
	}
}

// must ends the test if there is an error.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
