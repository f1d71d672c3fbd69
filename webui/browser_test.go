package webui_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"net/http/httptest"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/testkit"
	"github.com/holdfast-go/holdfast/memstore"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/webui"
)

// A scene is a store in memory, and the page that shows it.
type scene struct {
	t      testing.TB
	store  *memstore.Store
	client *holdfast.Client
	page   *webui.Handler
	server *httptest.Server
}

func newScene(t testing.TB, options ...webui.Option) *scene {
	t.Helper()
	s := &scene{t: t, store: memstore.New()}
	s.client = holdfast.New(s.store)
	t.Cleanup(func() { s.client.Close() })
	var err error
	s.page, err = webui.New(s.client, options...)
	testkit.Must(t, err)
	s.server = httptest.NewServer(s.page)
	t.Cleanup(s.server.Close)
	t.Cleanup(s.page.Close)
	return s
}

// serve replaces the page by one of another client, which is closed with the test.
func (s *scene) serve(client *holdfast.Client, options ...webui.Option) {
	s.t.Helper()
	s.server.Close()
	s.page.Close()
	var err error
	s.page, err = webui.New(client, options...)
	testkit.Must(s.t, err)
	s.server = httptest.NewServer(s.page)
	s.t.Cleanup(func() { s.page.Close(); s.server.Close(); client.Close() })
}

const long = time.Hour // a ttl that no test outlives

// held joins a claim that is held, of a holder with this label.
func (s *scene) held(name string, owner store.Owner) store.Claim {
	s.t.Helper()
	return testkit.Held(s.t, s.store, claimOf(name, owner))
}

func (s *scene) waiting(name string, owner store.Owner) store.Claim {
	s.t.Helper()
	return testkit.Waiting(s.t, s.store, claimOf(name, owner))
}

func claimOf(name string, owner store.Owner) store.Claim {
	c := testkit.Claim(name, long)
	c.Owner = &owner
	return c
}

// production fills the store as an operator may find it.
func (s *scene) production(ctx context.Context) {
	web := func(n int, label string) store.Owner {
		return store.Owner{
			Label:   label,
			Host:    fmt.Sprintf("web-%d", n),
			Address: fmt.Sprintf("10.4.0.%d", 10+n),
			PID:     4100 + 7*n,
		}
	}
	job := func(label string, pid int) store.Owner {
		return store.Owner{Label: label, Host: "jobs-1", Address: "10.4.1.5", PID: pid}
	}
	with := func(o store.Owner, id string) store.Owner { o.ID = id; return o }
	short := func(name string, o store.Owner, ttl time.Duration, demand ...store.Demand) store.Claim {
		c := claimOf(name, o)
		c.TTL = ttl
		if len(demand) > 0 {
			c.Demand = demand[0]
		}
		return c
	}
	reader := store.Demand{Kind: store.Lock, Units: 1, Limit: store.MaxReaders}
	slots := func(n int32) store.Demand { return store.Demand{Kind: store.Semaphore, Units: n, Limit: 4} }
	var kept []store.Claim
	take := func(c store.Claim) store.Claim {
		status, err := s.store.Join(ctx, c)
		testkit.Must(s.t, err)
		c.Ticket = status.Ticket
		kept = append(kept, c)
		return c
	}
	take(short("billing/invoices", web(1, "invoice-run"), 30*time.Second))
	for i := range 4 {
		take(short("billing/invoices", web(2+i, "invoice-run"), 30*time.Second))
	}
	take(short("deploy/eu-west", job("deploy 2026.11", 311), 60*time.Second))
	take(short("deploy/eu-west", with(job("migrate-users", 415), "migrate-users"), 60*time.Second))
	take(short("schema/users", with(job("migrate-users", 415), "migrate-users"), 60*time.Second))
	take(short("schema/users", web(3, "signup-api"), 15*time.Second))
	take(short("schema/users", web(4, "signup-api"), 15*time.Second))
	for i := range 3 {
		take(short("catalog", web(1+i, "search-index"), 20*time.Second, reader))
	}
	take(short("catalog", job("catalog-import", 502), 20*time.Second))
	take(short("encoder", web(5, "encode 4k"), 30*time.Second, slots(2)))
	take(short("encoder", web(6, "encode hd"), 30*time.Second, slots(1)))
	take(short("account/alice", with(web(1, "transfer #881"), "transfer-881"), 30*time.Second))
	take(short("account/bob", with(web(2, "transfer #882"), "transfer-882"), 30*time.Second))
	take(short("account/bob", with(web(1, "transfer #881"), "transfer-881"), 30*time.Second))
	take(short("account/alice", with(web(2, "transfer #882"), "transfer-882"), 30*time.Second))
	for _, name := range []string{"cron/backup", "cron/report", "cron/rotate-keys", "mail/outbox", "leader/scheduler",
		"leader/gateway",
		"cache/warm", "tenant/acme/export", "tenant/globex/export", "tenant/initech/import"} {
		take(
			short(name, job(strings.TrimPrefix(strings.ReplaceAll(name, "/", "-"), "cron-"), 600+len(name)),
				30*time.Second),
		)
	}
	go func() {
		for ctx.Err() == nil {
			_, _ = s.store.Keep(ctx, kept)
			pause(ctx, 8*time.Second)
		}
	}()
}

// TestInBrowser uses the page in Chromium.
func TestInBrowser(t *testing.T) {
	b := newChromium(t)
	for name, test := range map[string]func(*testing.T, *chromium){
		"live":       testLive,
		"keyboard":   testKeyboard,
		"break":      testBreakInBrowser,
		"connection": testConnection,
		"many names": testManyNames,
		"odd names":  testOddNames,
		"commands":   testCommands,
		"deadlock":   testDeadlockInBrowser,
		"dark":       testDark,
		"phone":      testPhone,
		"token":      testToken,
		"failing":    testFailing,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, b)
		})
	}
}

// openPage opens the page in a tab, which must have no errors in the end and have requested nothing from elsewhere.
func (s *scene) openPage(t *testing.T, b *chromium, width, height int) *tab {
	t.Helper()
	p := b.newTab(t, width, height)
	p.open(s.server.URL + "/" + s.page.Fragment())
	p.await(`document.querySelector("#state")?.innerText === "Live"`)
	t.Cleanup(func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if len(p.log) > 0 {
			t.Errorf("errors of the page: %q", p.log)
		}
		if len(p.urls) == 0 {
			t.Error("requests of the page are not seen")
		}
		for _, url := range p.urls {
			if !strings.HasPrefix(url, s.server.URL+"/") {
				t.Errorf("the page requested %s", url)
			}
		}
	})
	return p
}

// row is an expression for the row of a name.
func row(name string) string {
	return fmt.Sprintf(
		`[...document.querySelectorAll(".body .row:not([hidden])")].find((r) => r.querySelector(".name").title === %q)`,
		name,
	)
}

// testLive: names come, change and go without a reload; the filter and the sort order apply to them.
func testLive(t *testing.T, b *chromium) {
	s := newScene(t)
	p := s.openPage(t, b, 1300, 800)
	p.await(`document.querySelector("#empty").innerText.includes("No lock is held")`)
	x := s.held("deploy/eu", store.Owner{Label: "release", Host: "web-1", PID: 4711})
	p.await(row("deploy/eu") + `?.innerText.includes("release")`)
	for _, want := range []string{"web-1", "pid 4711", "exclusive"} {
		p.await(row("deploy/eu") + fmt.Sprintf(`.innerText.includes(%q)`, want))
	}
	w := s.waiting("deploy/eu", store.Owner{Label: "second"})
	p.await(row("deploy/eu") + `.querySelector(".waiters").innerText === "1"`)
	s.held("billing", store.Owner{Label: "invoices", Host: "web-2"})
	p.await(row("billing"))
	first := `document.querySelector("#row-0 .name").title`
	if p.await(first + ` === "billing"`); true {
		p.run(`document.querySelector(".head .waiters button").click()`)
		p.await(first + ` === "deploy/eu"`)
	}
	p.run(`{ const f = document.querySelector("#filter"); f.value = "WEB-2"; f.dispatchEvent(new Event("input")); }`)
	p.await(
		`document.querySelectorAll(".body .row:not([hidden])").length === 1 && document.querySelector("#count").innerText === "1 of 2 names"`,
	)
	p.run(`{ const f = document.querySelector("#filter"); f.value = ""; f.dispatchEvent(new Event("input")); }`)
	p.run(`document.querySelector("[data-only=waited]").click()`)
	p.await(`document.querySelectorAll(".body .row:not([hidden])").length === 1 && ` + row("deploy/eu"))
	p.run(row("deploy/eu") + `.click()`)
	p.await(`document.querySelector(".waiters .label")?.innerText === "second"`)
	testkit.Leave(t, s.store, x)
	testkit.AwaitHeld(t, s.store, w)
	p.await(`document.querySelector("#detail .card .label")?.innerText === "second"`)
	p.await(
		`[...document.querySelectorAll(".event")].some((e) => e.dataset.kind === "released" && e.innerText.includes("release"))`,
	)
	p.await(
		`[...document.querySelectorAll(".event")].some((e) => e.dataset.kind === "granted" && e.innerText.includes("second"))`,
	)
	p.await(`document.querySelectorAll(".chart .span.holding").length === 2`)
	testkit.Leave(t, s.store, w)
	p.await(`document.querySelector("#stat-names").innerText === "1"`)
	p.await(`document.querySelector("#detail .summary").innerText.startsWith("Not held")`)
}

// testKeyboard: all can be reached without a mouse.
func testKeyboard(t *testing.T, b *chromium) {
	s := newScene(t)
	for _, name := range []string{"a", "b", "c"} {
		s.held(name, store.Owner{Label: "of " + name})
	}
	p := s.openPage(t, b, 1300, 800)
	p.await(row("c"))
	active := `document.querySelector(".row.active .name")?.title`
	p.press("ArrowDown", "ArrowDown")
	p.await(active + ` === "b"`)
	p.await(
		`document.getElementById(document.querySelector("#grid").getAttribute("aria-activedescendant")).querySelector(".name").title === "b"`,
	)
	p.press("End")
	p.await(active + ` === "c"`)
	p.press("Enter")
	p.await(`document.querySelector("#detail h2")?.innerText === "c"`)
	p.press("Escape")
	p.await(`document.querySelector("#detail").hidden`)
	p.press("/", "b", "Enter")
	p.await(
		`document.querySelector("#detail h2")?.innerText === "b" && document.querySelector("#filter").value === "b"`,
	)
	p.press("Escape")
	p.await(`document.querySelector("#filter").value === ""`)
	p.press("Escape", "Escape", "?")
	p.await(
		`document.querySelector("#dialog").open && document.querySelector("#dialog-title").innerText === "Keyboard"`,
	)
	p.press("Escape")
	p.await(`!document.querySelector("#dialog").open`)
	p.press("t")
	p.await(`document.documentElement.dataset.theme === "light"`)
	if n := p.number(`[...document.querySelectorAll("button, input, select")].filter((n) => !n.innerText.trim() && ` +
		`!n.getAttribute("aria-label") && !n.labels?.length).length`); n != 0 {
		t.Errorf("%v controls have no label", n)
	}
	if live := p.text(`#state[role="status"][aria-live="polite"]`); live != "Live" {
		t.Errorf("the state of the connection is not announced: %q", live)
	}
}

// testBreakInBrowser: the page asks first, names holder and token, and breaks that claim.
func testBreakInBrowser(t *testing.T, b *chromium) {
	s := newScene(t, webui.WithBreak(), webui.WithLogger(slog.New(slog.DiscardHandler)))
	s.held("x", store.Owner{Label: "nightly", Host: "web-1", PID: 4711})
	s.waiting("x", store.Owner{Label: "next"})
	q, err := s.client.Inspect(t.Context(), "x")
	testkit.Must(t, err)
	p := s.openPage(t, b, 1300, 800)
	p.await(row("x"))
	p.run(row("x") + `.click()`)
	p.await(`document.querySelector("#detail .card .danger")`)
	p.run(`document.querySelector("#detail .card .danger").click()`)
	p.await(`document.querySelector("#dialog").open`)
	for _, want := range []string{"nightly", "web-1", "pid 4711", q.Entries[0].Token.String(), "fencing tokens"} {
		if text := p.text("#dialog"); !strings.Contains(text, want) {
			t.Errorf("no %q in %q", want, text)
		}
	}
	if focus := p.text("#dialog :focus"); focus != "Cancel" {
		t.Errorf("%q has the focus", focus)
	}
	p.press("Escape")
	p.await(`!document.querySelector("#dialog").open`)
	testkit.CheckLength(t, s.store, "x", 2)
	p.run(`document.querySelector("#detail .card .danger").click()`)
	p.run(`document.querySelector("#dialog .solid").click()`)
	p.await(`!document.querySelector("#dialog").open`)
	p.await(`document.querySelector("#detail .card .label")?.innerText === "next"`)
	p.await(
		`[...document.querySelectorAll(".event")].some((e) => e.dataset.kind === "broken" && e.innerText.includes("nightly"))`,
	)
	testkit.CheckLength(t, s.store, "x", 1)
}

// testConnection: the page says that the connection is lost, and shows what is true when it is back.
func testConnection(t *testing.T, b *chromium) {
	s := newScene(t)
	x := s.held("x", store.Owner{})
	p := b.newTab(t, 1300, 800) // errors of the connection are what this is about
	p.open(s.server.URL)
	p.await(row("x"))
	address := s.server.Listener.Addr().String()
	s.server.CloseClientConnections()
	s.server.Close()
	p.await(
		`document.querySelector("#state").innerText.includes("Connection lost") && document.body.classList.contains("stale")`,
	)
	testkit.Leave(t, s.store, x)
	s.held("y", store.Owner{})
	var listener net.Listener
	testkit.Await(t, "the port is free again", func() (ok bool) {
		var err error
		listener, err = new(net.ListenConfig).Listen(t.Context(), "tcp", address)
		return err == nil
	})
	again := httptest.NewUnstartedServer(s.page)
	again.Listener.Close()
	again.Listener = listener
	again.Start()
	t.Cleanup(func() { s.page.Close(); again.Close() })
	p.await(`document.querySelector("#state").innerText === "Live" && !document.body.classList.contains("stale")`)
	p.await(row("y") + ` && !` + row("x"))
}

// testFailing: the page says that the store fails, and no longer when it is back.
func testFailing(t *testing.T, b *chromium) {
	s := newScene(t)
	failing := &failingStore{Store: s.store}
	s.serve(holdfast.New(failing))
	p := s.openPage(t, b, 1300, 800)
	failing.set(true)
	p.await(
		`!document.querySelector("#failure").hidden && document.querySelector("#failure").innerText.includes("out of order")`,
	)
	failing.set(false)
	p.await(`document.querySelector("#failure").hidden`)
}

// testManyNames: of 5,000 names only those on the screen are in the page, wherever it is scrolled to, and frames go on.
func testManyNames(t *testing.T, b *chromium) {
	s := newScene(t)
	const names = 5000
	for i := range names {
		s.held(fmt.Sprintf("job/%04d", i), store.Owner{Label: "worker", Host: "web-1", PID: i})
	}
	p := s.openPage(t, b, 1300, 800)
	p.await(`document.querySelector("#count").innerText === "5,000 names"`)
	p.run(
		`window.frames_ = []; (function frame(at) { window.frames_.push(at); requestAnimationFrame(frame); })(performance.now())`,
	)
	most := 0.0
	for _, share := range []float64{0.25, 0.5, 0.75, 1, 0} {
		p.run(
			fmt.Sprintf(
				`{ const b = document.querySelector("#body"); b.scrollTop = (b.scrollHeight - b.clientHeight) * %v; }`,
				share,
			),
		)
		first := int(share*names) - 30
		p.await(
			fmt.Sprintf(
				`[...document.querySelectorAll(".body .row:not([hidden])")].some((r) => { const n = Number(r.querySelector(".name").title.slice(4)); `+
					`return n >= %d && n <= %d; })`,
				first,
				first+60,
			),
		)
		most = max(most, p.number(`document.querySelectorAll(".body .row").length`))
	}
	// Scroll through all of it, one frame after another.
	p.run(`(async () => {
		const b = document.querySelector("#body"), end = b.scrollHeight - b.clientHeight;
		window.frames_.length = 0;
		for (let i = 0; i <= 120; i++) { b.scrollTop = end * i / 120; await new Promise(requestAnimationFrame); }
	})()`)
	most = max(most, p.number(`document.querySelectorAll(".body .row").length`))
	nodes := p.number(`document.querySelectorAll("*").length`)
	median := p.number(
		`(() => { const d = window.frames_.slice(1).map((at, i) => at - window.frames_[i]).sort((a, b) => a - b); return d[Math.floor(d.length / 2)]; })()`,
	)
	t.Logf("at most %v rows and %v elements; a frame of the scroll takes %.1f ms in the median", most, nodes, median)
	if most > 80 || nodes > 1500 {
		t.Errorf("%v rows, %v elements", most, nodes)
	}
	if median > 100 { // on an idle machine it is 17
		t.Errorf("a frame takes %v ms", median)
	}
	p.run(`{ const f = document.querySelector("#filter"); f.value = "job/4321"; f.dispatchEvent(new Event("input")); }`)
	p.await(`document.querySelector("#count").innerText === "1 of 5,000 names" && ` + row("job/4321"))
}

// testOddNames: whatever names and labels contain is shown as text.
func testOddNames(t *testing.T, b *chromium) {
	s := newScene(t)
	const script = `<script>document.title="owned"</script><img src=x onerror="document.title='owned'">`
	s.held("a"+script, store.Owner{Label: script, Host: script, ID: script})
	s.waiting("a"+script, store.Owner{Label: script, Host: script})
	long := strings.Repeat("🔒", 127) + "long"
	s.held(long, store.Owner{Label: "emoji 👩‍🚀"})
	s.held("b\u202etxt.exe\n\x1b[2J", store.Owner{Label: "hidden\u200b"})
	p := s.openPage(t, b, 1300, 800)
	p.await(row("a"+script) + `?.innerText.includes("<script>")`)
	p.await(row(long) + ` && ` + row(`b\u{202e}txt.exe\u{a}\u{1b}[2J`))
	for _, open := range []string{row("a" + script), row(long)} {
		p.run(open + `.click()`)
		p.await(
			open +
				`.querySelector(".name").title === document.querySelector("#detail h2")?.innerText && document.querySelector("#detail .card")`,
		)
		if wide := p.number(`Number(document.documentElement.scrollWidth > innerWidth || document.querySelector("#detail").scrollWidth > document.querySelector("#detail").clientWidth)`); wide != 0 {
			t.Error("the page is wider than its window")
		}
	}
	var title string
	testkit.Must(t, p.eval(`document.title`, &title))
	if n := p.number(`document.querySelectorAll("body script, body img").length`); n != 0 ||
		strings.Contains(title, "owned") {
		t.Errorf("%v elements of a label, and the title %q", n, title)
	}
	// What is enforced by the policy, should a script ever forget.
	var refused string
	testkit.Must(
		t,
		p.eval(
			`(() => { try { document.body.innerHTML = "<b>x</b>"; return "inserted"; } catch (e) { return e.name; } })()`,
			&refused,
		),
	)
	if refused != "TypeError" {
		t.Errorf("HTML is %s", refused)
	}
	p.mu.Lock()
	p.log = nil // the refusal
	p.mu.Unlock()
}

// testCommands: what is copied means to a shell exactly the name, token and store.
func testCommands(t *testing.T, b *chromium) {
	s := newScene(t, webui.WithStoreURL("redis://:"+"secret@h:6379?prefix=it%27s"))
	names := []string{
		"plain", "two words", "it's", `$HOME "x" \n` + "`id`", "-rf", "tab\tand\u202eback", "🔒é", "a\nb;c", "*?[x]",
		"~", `back\slash` + "\x01'",
	}
	p := s.openPage(t, b, 1300, 800)
	bash, err := exec.LookPath("bash")
	testkit.Must(t, err)
	for _, name := range names {
		literal, err := json.Marshal(name)
		testkit.Must(t, err)
		var show, end string
		testkit.Must(t, p.eval(fmt.Sprintf(`import("./command.js").then((m) => m.showCommand(%s))`, literal), &show))
		testkit.Must(
			t,
			p.eval(fmt.Sprintf(`import("./command.js").then((m) => m.breakCommand(%s, "446744073709"))`, literal),
				&end),
		)
		for command, want := range map[string][]string{
			show: {"show", name, "--store", "redis://h:6379?prefix=it%27s"},
			end:  {"break", name, "--token", "446744073709", "--store", "redis://h:6379?prefix=it%27s"},
		} {
			if strings.HasPrefix(name, "-") {
				want = append(append([]string{want[0]}, want[2:]...), "--", name)
			}
			cmd := exec.CommandContext(t.Context(), bash, "-c", `holdfast() { printf '%s\0' "$@"; }; `+command)
			out, err := cmd.Output()
			testkit.Must(t, err)
			if got := strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00"); !slices.Equal(got, want) {
				t.Errorf("%s: %q, want %q", command, got, want)
			}
			if strings.Contains(command, "secret") {
				t.Errorf("%s has the password", command)
			}
		}
	}
}

// testDeadlockInBrowser: a deadlock is announced and drawn.
func testDeadlockInBrowser(t *testing.T, b *chromium) {
	s := newScene(t)
	alice, bob := store.Owner{ID: "1", Label: "transfer 1"}, store.Owner{ID: "2", Label: "transfer 2"}
	s.held("alice", alice)
	s.held("bob", bob)
	s.waiting("bob", alice)
	s.waiting("alice", bob)
	p := s.openPage(t, b, 1300, 800)
	p.await(
		`document.querySelector("#stat-deadlocks").innerText === "1" && !document.querySelector("#deadlocks").hidden`,
	)
	p.await(row("alice") + `.classList.contains("dead")`)
	p.run(`document.querySelector("#deadlocks .link").click()`)
	p.await(
		`document.querySelectorAll(".deadlock .party").length === 2 && document.querySelectorAll(".deadlock .edge").length === 2`,
	)
	var label string
	testkit.Must(t, p.eval(`document.querySelector(".deadlock").getAttribute("aria-label")`, &label))
	for _, want := range []string{"transfer 1 waits for bob, which transfer 2 holds",
		"transfer 2 waits for alice, which transfer 1 holds"} {
		if !strings.Contains(label, want) {
			t.Errorf("no %q in %q", want, label)
		}
	}
	p.await(`!document.querySelector(".tree .root") && document.querySelector(".tree .pill.bad")`)
}

// testDark: the page follows the system, and the button comes before it.
func testDark(t *testing.T, b *chromium) {
	s := newScene(t)
	p := s.openPage(t, b, 1300, 800)
	const isDark = `getComputedStyle(document.body).backgroundColor === "rgb(13, 17, 24)"`
	p.prefer("light")
	p.await(`!(` + isDark + `)`)
	p.prefer("dark")
	p.await(isDark)
	p.run(`document.querySelector("#theme-button").click()`) // light
	p.await(`!(` + isDark + `)`)
	p.prefer("light")
	p.run(`document.querySelector("#theme-button").click()`) // dark
	p.await(isDark)
	p.do("Page.reload", nil)
	p.await(`document.querySelector("#state")?.innerText === "Live" && ` + isDark)
	p.run(`document.querySelector("#theme-button").click()`) // as the system
	p.await(`!(` + isDark + `)`)
}

// testPhone: on a narrow screen nothing is cut off, and the detail covers the list.
func testPhone(t *testing.T, b *chromium) {
	s := newScene(t)
	s.held("billing/invoices", store.Owner{Label: "invoice-run", Host: "web-1.eu-west.example.com", PID: 4711})
	s.waiting("billing/invoices", store.Owner{Label: "second"})
	p := s.openPage(t, b, 360, 740)
	p.await(row("billing/invoices"))
	const fits = `document.documentElement.scrollWidth <= innerWidth`
	p.await(fits)
	for _, want := range []string{"invoice-run", "1 waiting"} {
		if text := p.text(".body .row"); !strings.Contains(text, strings.TrimSuffix(want, " waiting")) {
			t.Errorf("no %q in %q", want, text)
		}
	}
	p.await(`document.querySelector(".body .row").getBoundingClientRect().height >= 44`) // for fingers
	p.run(row("billing/invoices") + `.click()`)
	p.await(
		`document.querySelector("#detail .card") && document.querySelector("#detail").getBoundingClientRect().width === innerWidth && ` + fits,
	)
	p.run(`document.querySelector("#detail .close").click()`)
	p.await(`document.querySelector("#detail").hidden`)
}

// testToken: the page takes the token from its address, where it does not stay, and asks for it if it is missing.
func testToken(t *testing.T, b *chromium) {
	s := newScene(t, webui.WithToken(secret))
	s.held("x", store.Owner{})
	p := s.openPage(t, b, 1300, 800)
	p.await(row("x") + ` && !location.href.includes("token")`)
	p.do("Page.reload", nil)
	p.await(row("x"))

	other := b.newTab(t, 1300, 800) // refused requests are what this is about
	other.open(s.server.URL)
	other.await(`document.querySelector("#dialog").open && document.querySelector("#token") === document.activeElement`)
	other.run(`document.querySelector("#token").value = "wrong"; document.querySelector("#dialog .primary").click()`)
	other.await(`document.querySelector("#dialog").open && document.querySelector("#token").value === ""`)
	other.run(
		`document.querySelector("#token").value = ` + fmt.Sprintf("%q",
			secret) + `; document.querySelector("#dialog .primary").click()`,
	)
	other.await(row("x"))
}

// TestPictures takes the pictures of the documentation. It is for people who look at them.
func TestPictures(t *testing.T) {
	if os.Getenv(picturesEnv) == "" {
		t.Skip("for people: set " + picturesEnv + " to a folder")
	}
	b := newChromium(t)
	s := newScene(t)
	s.serve(holdfast.New(&picturedStore{s.store}), webui.WithBreak(), webui.WithStoreURL("redis://locks.internal:6379"))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	s.production(ctx)
	p := b.newTab(t, 1360, 820)
	p.prefer("light")
	p.open(s.server.URL)
	p.await(`document.querySelector("#stat-deadlocks").innerText === "1"`)
	pause(t.Context(), 3*time.Second)
	p.shot("light")
	p.prefer("dark")
	p.shot("dark")
	p.prefer("light")
	p.run(row("deploy/eu-west") + `.click()`)
	p.await(`document.querySelector(".tree .root")`)
	pause(t.Context(), 1*time.Second)
	p.shot("detail")
	p.run(`document.querySelector("#detail").scrollTop = 500`)
	p.shot("detail-2")
	p.prefer("dark")
	p.run(`document.querySelector("#deadlocks .link").click()`)
	p.await(`document.querySelector(".deadlock")`)
	pause(t.Context(), 500*time.Millisecond)
	p.shot("deadlock")
	p.prefer("light")
	p.shot("ui")
	p.prefer("dark")
	p.run(`document.querySelector("#detail .danger").click()`)
	p.shot("break")
	p.press("Escape")
	p.run(`document.querySelector("#detail").scrollTop = 5000`)
	p.shot("timeline")
	p.press("Escape")
	p.resize(390, 844)
	p.prefer("light")
	pause(t.Context(), 500*time.Millisecond)
	p.shot("phone")
	p.run(row("deploy/eu-west") + `.click()`)
	p.await(`document.querySelector(".tree .root")`)
	p.shot("phone-detail")
	if errs := p.errors(); len(errs) > 0 {
		t.Errorf("%q", errs)
	}
}
