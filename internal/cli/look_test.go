package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/holdfast-go/holdfast"
)

// line sets up a line to look at: one who holds, and one who waits.
func line(t *testing.T, name string) *holdfast.Lease {
	t.Helper()
	l := locked(t, name, holdfast.WithLabel("first"))
	c := client(t, holdfast.WithLabel("second"))
	ctx, cancel := context.WithCancel(t.Context())
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		c.Mutex(name).Lock(ctx) //nolint:errcheck // it waits until it is told to go, or has it when the first lost it
	}()
	t.Cleanup(func() { cancel(); <-gone })
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(time.Millisecond) {
		seen, err := c.Inspect(t.Context(), name)
		if err == nil && len(seen.Waiters()) == 1 {
			return l
		}
		if time.Now().After(deadline) {
			t.Fatal("nobody waits")
		}
	}
}

func TestShow(t *testing.T) {
	l := line(t, "x")
	call(t, "show", "x").want(t, 0, `(?s)^ +OWNER +MODE +SINCE +FOR +LEFT +TOKEN
held +first on .* exclusive +\d{4}-\d\d-\d\d \d\d:\d\d:\d\d +\S+ +\S+ +`+l.Token().String()+`
waiting 1 +second on .* exclusive .*
$`, nothing)
	call(t, "show", "y").want(t, exitNotHeld, nothing, "^holdfast: y is not held\n$")
}

// TestShowStranger shows a holder of another library, without an owner and a time.
func TestShowStranger(t *testing.T) {
	var out strings.Builder
	stranger := holdfast.Queue{Name: "x", Entries: []holdfast.Entry{{Held: true, Left: time.Second}}}
	check(t, writeQueue(&out, stranger, time.Now()))
	if !regexp.MustCompile(`held +an unknown owner .* \? +\? +1s `).MatchString(out.String()) {
		t.Error(out.String())
	}
	if place := newQueueJSON(stranger, time.Now()).Holders[0]; place.ForMS != 0 || place.For != "0s" {
		t.Errorf("%+v", place)
	}
}

// TestShowJSON pins the shape that docs/cli.md promises.
func TestShowJSON(t *testing.T) {
	l := line(t, "x")
	host, _ := os.Hostname()
	hosted := ""
	if host != "" {
		hosted = fmt.Sprintf("\n        \"host\": %q,", host)
	}
	place := func(label, token string) string {
		return `
    {
      "owner": {
        "label": "` + label + `",` + hosted + `(
        "address": ".*",)?
        "pid": \d+,
        "started": "` + rfc3339 + `"
      },
      "token": "` + token + `",
      "kind": "lock",
      "shared": false,
      "since": "` + rfc3339 + `",
      "for": "[^"]+",
      "for_ms": \d+,
      "left": "[^"]+",
      "left_ms": \d+
    }`
	}
	call(t, "show", "--json", "x").want(t, 0, `^{
  "name": "x",
  "holders": \[`+place("first", l.Token().String())+`
  \],
  "waiters": \[`+place("second", `\d+`)+`
  \]
}
$`, nothing)
	call(t, "show", "--json", "y").want(t, exitNotHeld, `"holders": \[\]`, "")
}

const rfc3339 = `\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)`

func TestLs(t *testing.T) {
	call(t, "ls").want(t, 0, nothing, nothing)
	line(t, "deploy")
	locked(t, "a\x1b[2J", holdfast.WithLabel("evil\nlabel"))
	c := client(t)
	for range 2 {
		if _, err := c.Semaphore("slots", 3).Acquire(t.Context(), 1); err != nil {
			t.Fatal(err)
		}
	}
	call(t, "ls").want(t, 0, `^NAME +HOLDER +SINCE +FOR +WAITING
"a\\x1b\[2J" +"evil\\nlabel" on .* 0
deploy +first on .* 1
slots +.* and 1 more .* 0
$`, nothing)
	call(t, "ls", "dep").want(t, 0, `^NAME .*\ndeploy .*\n$`, nothing)
	var list struct {
		Store string
		Locks []struct {
			Name    string
			Holders []struct {
				Kind         string
				Units, Limit int
				Shared       bool
			}
		}
	}
	r := call(t, "ls", "--json")
	check(t, json.Unmarshal([]byte(r.out), &list))
	if len(list.Locks) != 3 || !strings.Contains(list.Store, "memory") || list.Locks[0].Name != "a\x1b[2J" {
		t.Errorf("%+v", list)
	}
	if slots := list.Locks[2].Holders; len(slots) != 2 || slots[0].Kind != "semaphore" || slots[0].Units != 1 ||
		slots[0].Limit != 3 || !slots[0].Shared {
		t.Errorf("%+v", slots)
	}
}

func TestBreak(t *testing.T) {
	call(t, "break", "--yes", "x").want(t, exitNotHeld, nothing, "^holdfast: x is not held\n$")
	l := line(t, "x")
	call(t, "break", "--yes", "--token", "99999", "x").want(t, exitNotHeld, nothing, "99999")
	check(t, l.Err())
	token := l.Token().String()
	call(t, "break", "--yes", "--token", token, "x").
		want(t, 0, `^broken: first on .* holds x since .* \(token `+token+`\)\n$`, nothing)
	<-l.Context().Done()
}

// TestBreakAsks checks that only a yes is a yes, and that the question says whom it is about.
func TestBreakAsks(t *testing.T) {
	for answer, want := range map[string]bool{
		"y\n": true, "Yes\n": true, "n\n": false, "\n": false, "": false, "yep\n": false,
	} {
		errs := new(strings.Builder)
		a := &app{stdin: strings.NewReader(answer), stderr: errs}
		if a.confirm("nightly holds x. Break it?") != want {
			t.Errorf("%q is taken for %v", answer, !want)
		}
		if errs.String() != "nightly holds x. Break it? [y/N] " {
			t.Error(errs)
		}
	}
}

// TestPrintable checks that nobody's name for a lock does anything to another's terminal.
func TestPrintable(t *testing.T) {
	locked(t, "x", holdfast.WithLabel("evil\x1b[2J\nlabel"))
	callOnFiles(t, "run", "--no-wait", "x", "--", "true").want(t, exitBusy, nothing, `^[^\n\x1b]*\n$`)
}

// TestJSONIsPrintable checks that no character of a name or label does anything to a terminal, nor is changed.
func TestJSONIsPrintable(t *testing.T) {
	odd := "a\x1b\x7f\u0085\u009b31m\u00ad\u061c\u200b\u200e\u2028\u202e\u2066\ufeff" +
		"\U000e0041\U0001f512 ö\u00a0\"\\/<>&\n"
	locked(t, odd, holdfast.WithLabel(odd))
	for _, args := range [][]string{{"ls", "--json"}, {"show", "--json", odd}, {"ls"}, {"show", odd}} {
		r := call(t, args...)
		for _, c := range r.out {
			if c != '\n' && !unicode.IsPrint(c) {
				t.Errorf("%s writes %U", args[0], c)
			}
		}
		if args[len(args)-1] == "--json" {
			var list listJSON
			err := json.Unmarshal([]byte(r.out), &list)
			if err != nil || list.Locks[0].Name != odd || list.Locks[0].Holders[0].Owner.Label != odd {
				t.Errorf("%v, %+v", err, list)
			}
		}
	}
}
