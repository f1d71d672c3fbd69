package report

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/holdfast-go/holdfast/lab/history"
)

// written is what one of the writers of a run writes.
func written(t *testing.T, write func(io.Writer) error) string {
	t.Helper()
	var b bytes.Buffer
	if err := write(&b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestText(t *testing.T) {
	r := brokenRun()
	r.Faults = append(r.Faults, Fault{Name: "connection cut", Target: "process 1", Interval: ms(1, 1)})
	want := `A fabricated run: BROKEN
The checks found 1 violation in 3 operations under 2 faults. Each one proves that a promise was broken.

  store      redis://user:***@127.0.0.1:6379
  began      2026-02-03 04:05:06 UTC
  lasted     1s
  seed       7
  workers    2
  operations 3
  faults     2
  violations 1
  repeat     holdfast lab run fabricated --seed 7

mutual exclusion: 1 violation in 3 events
  Holds that exclude each other are never believed at once.
  at 400ms, exclusion of "stock": two were held at once for 100ms, and they exclude each other
    exclusive hold by process 0/a with token 2560, from 100ms to 500ms
    exclusive hold by process 1/b with token 2816, from 400ms to 700ms

fencing tokens: 0 violations in 3 events
  Tokens rise with the holds.

2 faults:
       1  connection cut (1 without proof)
       1  pause

updates lost: 2.5 per second
`
	if got := written(t, r.WriteText); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestTextOfOtherVerdicts(t *testing.T) {
	many := Check{Name: "many", Judged: 9, More: true, Calibration: true, Findings: make([]Finding, 8)}
	for _, test := range []struct {
		run  *Run
		want []string
	}{
		{cleanRun(), []string{": HELD\n", "no violation in 3 operations under 0 faults"}},
		{&Run{}, []string{": UNDECIDED\n", "Nothing is proven", "\n\n  lasted     0s\n", "\n  violations 0\n"}},
		{&Run{Checks: []Check{{Name: "order"}}}, []string{"order: nothing was judged\n"}},
		{&Run{Checks: []Check{many}}, []string{
			"many: 8 violations or more in 9 events, for calibration\n", "and 3 others\n",
		}},
	} {
		text := written(t, test.run.WriteText)
		for _, want := range test.want {
			if !strings.Contains(text, want) {
				t.Errorf("no %q in %s", want, text)
			}
		}
	}
}

// odd is a name that would do something to a terminal, to a page, or to a template.
const odd = "a\x1b[2J\u202e\r\n</script><script>document.title='owned'</script><!--{{.}}]]>&amp;\"'`\U000e0041\xff"

// oddRun is a broken run in which everything that comes from outside has an odd name.
func oddRun() *Run {
	a := history.Who{Process: odd, Client: odd, Owner: odd + "1"}
	b := history.Who{Process: odd, Client: odd, Owner: odd + "2"}
	holds := []history.Hold{exclusive(a, 10, ms(100, 500)), exclusive(b, 11, ms(400, 700))}
	for i := range holds {
		holds[i].Resource = odd
	}
	r := fabricated(holds...)
	r.Title, r.Store, r.Command = odd, odd, odd
	r.Faults = []Fault{{Name: odd, Target: odd, Interval: ms(1, 2), Proof: odd}}
	r.Figures = []Figure{{Name: odd, Unit: odd}}
	r.Workers[0].Spans[0].Note = odd
	for i := range r.Checks {
		r.Checks[i].Name, r.Checks[i].Property = odd, odd
	}
	return r
}

// TestPrintable checks that no name does anything to a terminal, and that JSON does not change it.
func TestPrintable(t *testing.T) {
	r := oddRun()
	for _, text := range []string{written(t, r.WriteText), written(t, r.WriteJSON)} {
		for _, c := range text {
			if c != '\n' && !unicode.IsPrint(c) {
				t.Errorf("%U is written", c)
			}
		}
	}
	read, err := ReadJSON(strings.NewReader(written(t, r.WriteJSON)))
	if want := strings.ToValidUTF8(odd, "\ufffd"); err != nil || read.Title != want || read.Workers[0].Client != want {
		t.Errorf("%v, %+v", err, read)
	}
}

func TestAt(t *testing.T) {
	r := &Run{Interval: ms(10, 20)}
	if a, b := r.at(ms(15, 0).Begin), r.at(ms(5, 0).Begin); a != "5ms" || b != "0s" {
		t.Errorf("%s after the beginning, %s before", a, b)
	}
}

func TestLength(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0s", 999: "999ns", 1234567: "1.235ms", 400 * time.Millisecond: "400ms",
		12345678901: "12.346s", 3*time.Minute + 4567891: "3m0.005s", -1234567: "-1.235ms",
	} {
		if got := length(d); got != want {
			t.Errorf("%d: %s, want %s", d, got, want)
		}
	}
}

// TestWriteErrors checks that an error of what is written to is returned.
func TestWriteErrors(t *testing.T) {
	r, full := brokenRun(), errors.New("disk full")
	for name, write := range map[string]func(io.Writer) error{
		"text": r.WriteText, "JSON": r.WriteJSON, "HTML": r.WriteHTML, "SVG": r.WriteSVG,
	} {
		if err := write(failing{full}); !errors.Is(err, full) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

type failing struct{ error }

func (f failing) Write([]byte) (int, error) { return 0, f.error }
