package demo

import (
	"bytes"
	"os"
	"strings"
	"testing"
)

func TestPlainScreenDrawsNothing(t *testing.T) {
	var out bytes.Buffer
	s := newScreen(&out, false)
	s.draw(&picture{items: 10, left: 5, workers: make([]state, 3)})
	s.say("a line")
	s.draw(nil)
	if out.String() != "a line\n" {
		t.Errorf("what is no terminal sees %q", out.String())
	}
}

// TestLiveScreen plays the terminal: at the end there must be what was said, and nothing of the pictures.
func TestLiveScreen(t *testing.T) {
	var out bytes.Buffer
	s := &lines{out: &out, live: true}
	p := &picture{
		items:   10,
		left:    5,
		workers: []state{{paid, paying, 5}, {paid, waiting, 0}, {killed, paying, 7}, {stopped, paying, 6}},
	}
	s.say("Round 1")
	s.draw(p)
	p.left, p.workers[1] = 4, state{paid, soldOut, 0}
	s.draw(p)
	want := []string{
		"Round 1",
		"  stock     ████████████░░░░░░░░░░░░░░░░░░ 4 left",
		"  worker 1  selling item 5",
		"  worker 2  done",
		"  worker 3  killed at item 7",
		"  worker 4  stopped at item 6",
	}
	checkTerminal(t, &out, want)
	s.say("  worker 3 was killed")
	checkTerminal(t, &out, append([]string{"Round 1", "  worker 3 was killed"}, want[1:]...))
	s.draw(nil)
	s.say("Round 2")
	checkTerminal(t, &out, []string{"Round 1", "  worker 3 was killed", "Round 2"})
}

// checkTerminal does what a terminal does with lines, "up so many" and "clear the rest".
func checkTerminal(t *testing.T, out *bytes.Buffer, want []string) {
	t.Helper()
	var shown []string
	for line := range strings.Lines(out.String()) {
		line = strings.TrimSuffix(line, "\n")
		if up, rest, ok := strings.Cut(line, "\x1b[J"); ok {
			n := 0
			for _, digit := range strings.TrimSuffix(strings.TrimPrefix(up, "\x1b["), "A") {
				n = n*10 + int(digit-'0')
			}
			shown, line = shown[:len(shown)-n], rest
		}
		shown = append(shown, line)
	}
	if last := len(shown) - 1; last >= 0 && shown[last] == "" {
		shown = shown[:last]
	}
	if strings.Join(shown, "\n") != strings.Join(want, "\n") {
		t.Errorf("the terminal shows\n%s\nwant\n%s", strings.Join(shown, "\n"), strings.Join(want, "\n"))
	}
}

// TestPictureAtItsEdges: no count breaks the bar, also when a late write brought items back.
func TestPictureAtItsEdges(t *testing.T) {
	for left, full := range map[int]int{0: 0, 1: 1, 99: 30, 100: 30, 120: 30} {
		p := &picture{items: 100, left: left}
		bar := p.lines(false)[0]
		if got := strings.Count(bar, "█"); got != full || strings.Count(bar, "░") != barWidth-full {
			t.Errorf("%d left: %q", left, bar)
		}
	}
}

func TestColours(t *testing.T) {
	bad := account{items: 10, sold: 12, holds: []span{{0, 2, 1}, {1, 3, 2}}}
	for _, coloured := range []style{false, true} {
		got := row(coloured, "no lock", &bad)
		if strings.Contains(got, "\x1b[") != bool(coloured) {
			t.Errorf("with colours %v: %q", coloured, got)
		}
		bare := strings.NewReplacer("\x1b[1;31m", "", "\x1b[0m", "").Replace(got)
		if bare != row(false, "no lock", &bad) {
			t.Errorf("colours change the text: %q", got)
		}
	}
}

// TestNoTerminal: a file is none.
func TestNoTerminal(t *testing.T) {
	f, err := os.CreateTemp(t.TempDir(), "out")
	must(t, err)
	defer f.Close()
	if _, plain := newScreen(f, false).(*lines); !plain {
		t.Error("a file is taken for a terminal")
	}
}
