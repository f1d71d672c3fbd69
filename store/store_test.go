package store_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/holdfast-go/holdfast/store"
)

func FuzzCheckName(f *testing.F) {
	for _, s := range []string{"", "a", "a\x00", "\xff", strings.Repeat("x", 512), strings.Repeat("x", 513), "Ä/{}*"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, name string) {
		good := name != "" && len(name) <= 512 && utf8.ValidString(name) && !strings.Contains(name, "\x00")
		if err := store.CheckName(name); (err == nil) != good || (err != nil && !errors.Is(err, store.ErrBadName)) {
			t.Fatalf("%q: %v", name, err)
		}
	})
}

func TestParseLocation(t *testing.T) {
	l, err := store.ParseLocation("redlock://me:p%40ss@h1:6379,h2:6380,[::1]:6381/3?prefix=a%2F&ttl=10s&drift=5ms")
	if err != nil {
		t.Fatal(err)
	}
	password, _ := l.User.Password()
	hosts := []string{"h1:6379", "h2:6380", "[::1]:6381"}
	if l.Scheme != "redlock" || password != "p@ss" || !slices.Equal(l.Hosts, hosts) || l.Path != "/3" ||
		l.Prefix != "a/" || l.TTL != 10*time.Second || l.Query.Get("drift") != "5ms" || len(l.Query) != 1 {
		t.Fatalf("%+v", l)
	}
	if err := l.Allow("drift"); err != nil {
		t.Error(err)
	}
	if err := l.Allow("guard"); err == nil || !strings.Contains(err.Error(), `"drift"`) {
		t.Errorf("unknown parameter: %v", err)
	}
	for raw, path := range map[string]string{
		"memory:": "", "memory:shop": "shop", "sqlite:/var/lib/x.db": "/var/lib/x.db", "sqlite:a%20b.db": "a b.db",
		"REDIS://h": "", "redis+sentinel://h1,h2/main": "/main",
	} {
		if l, err := store.ParseLocation(raw); err != nil || l.Path != path {
			t.Errorf("%s: %+v, %v", raw, l, err)
		}
	}
}

func TestParseLocationRefuses(t *testing.T) {
	for _, raw := range []string{
		"", "x", "://h", "redis://u:s3cret@h:port", "redis://u:s3cret@h:1:2", "redis://u:s3cret@,h",
		"redis://s3cret%zz@h",
		"redis://h#s3cret", "redis://u:s3cret@h?a=%zz", "redis://u:s3cret@h?ttl=0s", "redis://u:s3cret@h?ttl=-1s",
		"redis://u:s3cret@h?prefix=%00", "redis:%zz", "redis:u:s3cret@h", "redis:/u:s3cret@h", "redis:///:s3cret@h",
		"redis://u:12/s3cret@h", "redis://h:s3cret", "redis://h:99999", "redis://s3cret!",
		"redis://[s3cret]", "redis://[::1]s3cret",
	} {
		l, err := store.ParseLocation(raw)
		if err == nil {
			t.Errorf("%q became %+v", raw, l)
		} else if strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%q: the error repeats a part of the URL: %v", raw, err)
		}
	}
}

// TestLocationString checks that String shows no password, no user that may be one, and no parameter that is not known
// to be harmless.
func TestLocationString(t *testing.T) {
	for raw, want := range map[string]string{
		"redis://me:s3cret@h:1/2?prefix=p&ttl=1s":          "redis://me:xxxxx@h:1/2?prefix=p&ttl=1s",
		"redis://:s3cret@h":                                "redis://:xxxxx@h",
		"redis://s3cret@h":                                 "redis://xxxxx@h",
		"redis://s3cret:@h":                                "redis://xxxxx@h",
		"redis://@h":                                       "redis://@h",
		"redis://h?pwd=s3cret":                             "redis://h?xxxxx=xxxxx",
		"redis://h?s3cret&startup-delay=1s":                "redis://h?startup-delay=1s&xxxxx=xxxxx",
		"redis+sentinel://h/main?sentinel-password=s3cret": "redis+sentinel://h/main?sentinel-password=xxxxx",
		"rediss://h?ca=/ca.pem&server-name=n":              "rediss://h?ca=%2Fca.pem&server-name=n",
		"sqlite:/home/me%40corp/a%3Fb.db":                  "sqlite:/home/me%40corp/a%3Fb.db",
	} {
		l, err := store.ParseLocation(raw)
		if err != nil || l.String() != want {
			t.Errorf("%s: %s, %v; want %s", raw, l, err, want)
		}
	}
}

// TestRejected checks that a URL may be shown only if the error is about the store that was reached.
func TestRejected(t *testing.T) {
	for err, want := range map[error]bool{
		errors.New("the database is a number"): true,
		fmt.Errorf("x: %w", store.ErrBadName):  true,
		&store.Fault{Err: errors.New("down")}:  false,
		fmt.Errorf("x: %w", store.ErrFormat):   false,
		context.DeadlineExceeded:               false,
		fmt.Errorf("x: %w", context.Canceled):  false,
		nil:                                    false,
	} {
		if store.Rejected(err) != want {
			t.Errorf("%v: %v", err, !want)
		}
	}
}

// FuzzParseLocation checks that ParseLocation never panics, that String never shows a password, and that what String
// returns can be parsed again.
func FuzzParseLocation(f *testing.F) {
	for _, s := range []string{
		"memory:", "redis://u:hidden@h:1,h2:2/0?x=y&ttl=1s&prefix=p", "sqlite:/a b?password=hidden", "a://@", "a:?ttl",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		l, err := store.ParseLocation(raw)
		if err != nil {
			return
		}
		if l.User != nil {
			if _, has := l.User.Password(); has {
				l.User = url.UserPassword(l.User.Username(), "hidden-password")
			}
		}
		printed := l.String()
		if strings.Contains(printed, "hidden-password") {
			t.Fatalf("%q shows the password", printed)
		}
		again, err := store.ParseLocation(printed)
		if err != nil {
			t.Fatalf("%q was printed as %q: %v", raw, printed, err)
		}
		if again.String() != printed || again.Path != l.Path || !slices.Equal(again.Hosts, l.Hosts) ||
			again.Prefix != l.Prefix {
			t.Fatalf("%q was parsed again as %q", printed, again.String())
		}
	})
}

func TestIDInText(t *testing.T) {
	id := store.ID{0: 1, 9: 2, 15: 255}
	text, err := json.Marshal(id)
	if err != nil || string(text) != `"`+id.String()+`"` {
		t.Fatalf("%s, %v", text, err)
	}
	var back store.ID
	if err := json.Unmarshal(text, &back); err != nil || back != id {
		t.Fatalf("%v, %v", back, err)
	}
	for _, bad := range []string{"", "00", strings.Repeat("0", 33), strings.Repeat("g", 32)} {
		if err := back.UnmarshalText([]byte(bad)); err == nil {
			t.Errorf("%q was accepted", bad)
		}
	}
}

// TestMarkTooHigh checks that a mark is refused only if no clock can have produced it: if it is ahead of the clock, the
// clock may have been set back.
func TestMarkTooHigh(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for _, test := range []struct {
		mark uint64
		now  time.Time
		want bool
	}{
		{0, now, false},
		{uint64(now.UnixMicro()), now, false},
		{uint64(now.AddDate(0, 0, 3).UnixMicro()), now, false},
		{uint64(now.UnixMicro()), time.Unix(0, 0), false}, // a machine without a battery
		{store.LastMark, now, false},
		{store.LastMark + 1, now, true},
		{store.LastMark + 1, time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC), false},
		{1<<53 - 1, now, true},
		{store.MaxTicket, now, true},
		{1<<64 - 1, now, true},
	} {
		if got := store.MarkTooHigh(test.mark, test.now); got != test.want {
			t.Errorf("%d at %v: %v", test.mark, test.now, got)
		}
	}
	if err := store.BadMark("here", "7"); !errors.Is(err, store.ErrFloor) || !store.Final(err) {
		t.Error(err)
	}
}

func TestFloorTooHigh(t *testing.T) {
	now := time.Now()
	micro := uint64(now.UnixMicro())
	for floor, want := range map[uint64]bool{
		0: false, micro: false, micro + 3600e6: false, micro + 48*3600e6: true, store.MaxTicket: true, 1<<64 - 1: true,
	} {
		if store.FloorTooHigh(floor, now) != want {
			t.Errorf("%d: %v", floor, !want)
		}
	}
}

func TestFinal(t *testing.T) {
	down := errors.New("down")
	for err, want := range map[error]bool{
		down:                                      false,
		&store.Fault{Store: "s", Err: down}:       false,
		&store.Fault{Final: true, Err: down}:      true,
		fmt.Errorf("x: %w", store.ErrMismatch):    true,
		&store.Fault{Err: store.ErrFormat}:        true,
		fmt.Errorf("x: %w", store.ErrBadName):     true,
		errors.Join(down, store.ErrNotHeld):       true,
		fmt.Errorf("timeout: %w", errors.New("")): false,
	} {
		if store.Final(err) != want {
			t.Errorf("%v: %v", err, !want)
		}
	}
}

func TestOwnerForPeople(t *testing.T) {
	for want, o := range map[string]store.Owner{
		"nightly on web-1 (pid 7)": {Label: "nightly", Host: "web-1", PID: 7},
		"job 3, web-1":             {ID: "job 3", Host: "web-1"},
		"10.0.0.1":                 {Address: "10.0.0.1"},
		"nightly":                  {Label: "nightly"},
		"an unknown owner":         {},
	} {
		if got := o.String(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestLocationOfADatabase(t *testing.T) {
	for raw, want := range map[string]string{
		"postgres://h/app": "app", "postgres://h": "", "postgres://h/": "", "postgres:///app": "app",
		"postgres://me:hush@h/my%20shop": "my shop",
		"postgres:hush":                  "!", "postgres:/hush/x": "!", "postgres://h/app/hush": "!",
		"postgres://h/app%2Fhush":  "!",
		"postgres://hush%00@h/app": "!", "postgres://me:hush%00@h/app": "!", "postgres://h/hush%00": "!",
		"postgres://h/app?db=hush%00": "!",
	} {
		at, err := store.ParseLocation(raw)
		if err != nil {
			t.Fatalf("%s: %v", raw, err)
		}
		name, err := at.Database()
		if want == "!" {
			if err == nil || strings.Contains(err.Error(), "hush") {
				t.Errorf("%s: %q, %v", raw, name, err)
			}
		} else if name != want || err != nil {
			t.Errorf("%s: %q, %v", raw, name, err)
		}
	}
	for raw, want := range map[string]string{
		"postgres://h": "", "postgres://me@h": "me", "postgres://me:@h": "me", "postgres://me:hush@h": "",
		"postgres://:hush@h": "",
	} {
		at, err := store.ParseLocation(raw)
		if got := at.LoneUser(); err != nil || got != want {
			t.Errorf("%s: %q, %v; want %q", raw, got, err, want)
		}
	}
}
