package report

import (
	"bytes"
	"context"
	_ "embed" // the page that looks at the others
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/servers"
	"github.com/holdfast-go/holdfast/internal/testkit"
)

// browserPatience is how long Chromium may take. It needs about three seconds, and more on a busy machine.
const browserPatience = 2 * time.Minute

//go:embed testdata/look.html
var lookPage string

// A seen is what testdata/look.html has seen in a page.
type seen struct {
	Title        string
	Verdict      string
	Violations   []string // the rows of the table
	NoViolations bool
	Cells        []string // the first cell of each row of all tables
	Scripts      int
	Resources    []string // what the page has loaded
	Red          int      // pixels of the timeline
	Label        string
	Overflow     bool // the page is wider than its window
	Range        string
	Jumped       string // the range after a click on the first violation
	JumpedTip    string
	JumpedRed    int
	Keys         map[string]string // the range or the details after a key
	Dragged      string            // the range after the mouse was dragged
	Wheeled      string            // after the wheel was turned
	Back         string            // the colour of the background
	Dark         string            // the same for readers who like it dark
}

// TestInBrowser looks at pages in Chromium. All of its requests go to one server, which counts them.
func TestInBrowser(t *testing.T) {
	b := &browser{finished: make(chan struct{}), pages: map[string]string{
		"/look.html":   lookPage,
		"/broken.html": written(t, brokenRun().WriteHTML),
		"/clean.html":  written(t, cleanRun().WriteHTML),
		"/odd.html":    written(t, oddRun().WriteHTML),
		"/empty.html":  written(t, (&Run{}).WriteHTML),
	}}
	console := b.browse(t)
	var all map[string]seen
	if err := json.Unmarshal(b.result, &all); err != nil {
		t.Fatalf("%v in %q; console: %q", err, b.result, console)
	}

	t.Run("a broken lock", func(t *testing.T) { checkBroken(t, all["broken"]) })
	t.Run("a lock that holds", func(t *testing.T) {
		s := all["clean"]
		if s.Verdict != "held" || !s.NoViolations || len(s.Violations) != 0 || s.Red != 0 {
			t.Errorf("%+v", s)
		}
	})
	t.Run("odd names", func(t *testing.T) {
		s := all["odd"]
		if !strings.Contains(s.Title, "<script>document.title='owned'</script>") || s.Scripts != 2 {
			t.Errorf("the title is %q, and there are %d scripts", s.Title, s.Scripts)
		}
		if !slices.ContainsFunc(
			s.Cells,
			func(c string) bool { return strings.Contains(c, `\u202e  </script><script>`) },
		) {
			t.Errorf("the name is in none of %q", s.Cells)
		}
		if s.Overflow {
			t.Error("the page is wider than its window")
		}
	})
	t.Run("an empty run", func(t *testing.T) {
		if s := all["empty"]; s.Verdict != "undecided" || s.Red != 0 {
			t.Errorf("%+v", s)
		}
	})
	t.Run("requests", func(t *testing.T) {
		others := slices.DeleteFunc(b.requests, func(url string) bool {
			path, ours := strings.CutPrefix(url, "http://report.test")
			return ours && (b.pages[path] != "" || path == "/finish" || path == "/result")
		})
		if want := []string{"http://report.test/control"}; !slices.Equal(others, want) {
			t.Errorf("%q, want %q", others, want)
		}
		for name, s := range all {
			if len(s.Resources) != 0 {
				t.Errorf("%s has loaded %q", name, s.Resources)
			}
		}
	})
	t.Run("console", func(t *testing.T) {
		if len(console) == 0 || !strings.Contains(console[0], "the console is heard") {
			t.Fatalf("nothing is heard of the console: %q", console)
		}
		others := slices.DeleteFunc(
			console[1:],
			func(line string) bool { return strings.Contains(line, "elsewhere.test") },
		)
		if len(others) > 0 {
			t.Errorf("%q", others)
		}
	})
}

func checkBroken(t *testing.T, s seen) {
	if s.Verdict != "broken" || s.NoViolations || len(s.Violations) != 1 || s.Red < 100 || s.Scripts != 2 ||
		s.Overflow {
		t.Errorf("%+v", s)
	}
	for _, want := range []string{"400ms", "stock", "process 0/a with token 2560", "process 1/b with token 2816"} {
		if !strings.Contains(s.Violations[0], want) {
			t.Errorf("no %q in %q", want, s.Violations[0])
		}
	}
	if want := "Timeline of 2 workers over 1s with 1 fault and 1 violation."; !strings.HasPrefix(s.Label, want) {
		t.Errorf("the timeline is called %q", s.Label)
	}
	if s.Range != "0s to 1s of 1s" || s.Jumped != "200ms to 700ms of 1s" || s.JumpedRed <= s.Red ||
		!strings.Contains(s.JumpedTip, "process 0/a and process 1/b") {
		t.Errorf("a click goes from %q to %q with %q", s.Range, s.Jumped, s.JumpedTip)
	}
	for key, want := range map[string]string{
		"0": "0s to 1s of 1s", "+": "250ms to 750ms of 1s", "ArrowLeft": "150ms to 650ms of 1s",
		"n": "200ms to 700ms of 1s",
		"-": "0s to 1s of 1s", "ArrowDown": "process 0/a", ".": "token 2560",
	} {
		if !strings.Contains(s.Keys[key], want) {
			t.Errorf("after %s: %q, want %q", key, s.Keys[key], want)
		}
	}
	if s.Dragged == s.Range || s.Wheeled == s.Range || s.Dragged == "" || s.Wheeled == "" {
		t.Errorf("dragging shows %q, and the wheel %q", s.Dragged, s.Wheeled)
	}
	if s.Back == s.Dark || s.Back != "rgb(255, 255, 255)" {
		t.Errorf("the background is %q, and %q in the dark", s.Back, s.Dark)
	}
}

// A browser is Chromium, whose requests all go to one server.
type browser struct {
	pages    map[string]string
	finished chan struct{} // closed when the page has sent what it has seen

	mu       sync.Mutex
	requests []string // all but those of Chromium itself
	result   []byte
}

// browse opens /look.html of these pages in Chromium, and returns the lines of its console when that has seen all.
func (b *browser) browse(t *testing.T) (console []string) {
	t.Helper()
	chromium := servers.Need(t, "chromium")
	ctx, cancel := context.WithTimeout(t.Context(), browserPatience)
	defer cancel()
	web := httptest.NewServer(b)
	defer web.Close()
	home := t.TempDir()
	t.Cleanup(func() { // children of Chromium may write for a moment longer
		testkit.Soon(10*time.Second, func() bool { return os.RemoveAll(home) == nil })
	})
	var stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, chromium, "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic",
		"--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync",
		"--disable-dev-shm-usage", "--enable-logging=stderr", "--user-data-dir="+home, "--window-size=1300,1000",
		"--proxy-server="+web.URL, "--dump-dom", "http://report.test/look.html")
	cmd.Env = append(os.Environ(), "HOME="+home)
	cmd.Stderr, cmd.WaitDelay = &stderr, time.Second
	if err := cmd.Run(); err != nil {
		t.Fatalf("chromium: %v\n%s", err, stderr.String())
	}
	return regexp.MustCompile(`.*CONSOLE.*`).FindAllString(stderr.String(), -1)
}

// ServeHTTP is a proxy that has all there is itself. Chromium waits for /finish, and with it for the end of the look.
func (b *browser) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	b.mu.Lock()
	if strings.HasSuffix(r.URL.Hostname(), ".test") {
		b.requests = append(b.requests, r.URL.String())
	}
	b.mu.Unlock()
	switch r.URL.Path {
	case "/finish":
		select {
		case <-b.finished:
		case <-r.Context().Done():
		}
	case "/result":
		body, err := io.ReadAll(r.Body)
		b.mu.Lock()
		defer b.mu.Unlock()
		if err == nil && b.result == nil {
			b.result = body
			close(b.finished)
		}
	default:
		w.Header().Set("Content-Type", "text/html")
		_, _ = io.WriteString(w, b.pages[r.URL.Path]) // what is not read is missed in the result
	}
}
