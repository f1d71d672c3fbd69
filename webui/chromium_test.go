package webui_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/servers"
	"github.com/holdfast-go/holdfast/internal/testkit"
)

// A chromium is a browser without a window, driven by its DevTools protocol over a pipe.
type chromium struct {
	t       testing.TB
	out     *os.File
	mu      sync.Mutex
	last    int
	calls   map[int]chan reply
	ended   chan struct{} // closed when the browser is gone
	onEvent map[string]func(method string, params json.RawMessage)
}

type reply struct {
	ID        int             `json:"id"`
	SessionID string          `json:"sessionId"`
	Method    string          `json:"method"`
	Params    json.RawMessage `json:"params"`
	Result    json.RawMessage `json:"result"`
	Error     *struct{ Message string }
}

// newChromium starts a browser, which ends with the test.
func newChromium(t testing.TB) *chromium {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("files of a child process cannot be inherited by number here")
	}
	program := servers.Need(t, "chromium")
	home := t.TempDir()
	toBrowser, out, err := os.Pipe()
	testkit.Must(t, err)
	in, fromBrowser, err := os.Pipe()
	testkit.Must(t, err)
	var stderr bytes.Buffer
	cmd := exec.Command(program, "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
		"--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage",
		"--hide-scrollbars", "--user-data-dir="+home, "--remote-debugging-pipe", "about:blank")
	cmd.Env = append(os.Environ(), "HOME="+home)
	cmd.ExtraFiles = []*os.File{toBrowser, fromBrowser} // 3 and 4
	cmd.Stderr, cmd.WaitDelay = &stderr, time.Second
	testkit.Must(t, cmd.Start())
	toBrowser.Close()
	fromBrowser.Close()
	c := &chromium{t: t, out: out, calls: map[int]chan reply{}, ended: make(chan struct{}),
		onEvent: map[string]func(string, json.RawMessage){}}
	go c.receive(in)
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		out.Close()
		<-c.ended
		in.Close()
		// Its children may write for a moment longer.
		testkit.Soon(10*time.Second, func() bool { return os.RemoveAll(home) == nil })
		if t.Failed() {
			lines := slices.DeleteFunc(strings.Split(stderr.String(), "\n"),
				func(line string) bool { return strings.Contains(line, "dbus") })
			t.Logf("chromium: %s", strings.Join(lines, "\n"))
		}
	})
	return c
}

// receive passes on what the browser sends, until it is gone.
func (c *chromium) receive(in *os.File) {
	defer close(c.ended)
	for r := bufio.NewReaderSize(in, 1<<20); ; {
		raw, err := r.ReadBytes(0)
		if err != nil {
			return
		}
		var got reply
		if json.Unmarshal(raw[:len(raw)-1], &got) != nil {
			continue
		}
		c.mu.Lock()
		call, on := c.calls[got.ID], c.onEvent[got.SessionID]
		delete(c.calls, got.ID)
		c.mu.Unlock()
		if call != nil {
			call <- got
		} else if on != nil {
			on(got.Method, got.Params)
		}
	}
}

// call calls a method, and decodes its result.
func (c *chromium) call(session, method string, params map[string]any, into any) error {
	c.mu.Lock()
	c.last++
	id, done := c.last, make(chan reply, 1)
	c.calls[id] = done
	raw, err := json.Marshal(map[string]any{"id": id, "sessionId": session, "method": method, "params": params})
	if err == nil && session == "" {
		raw, err = json.Marshal(map[string]any{"id": id, "method": method, "params": params})
	}
	if err == nil {
		_, err = c.out.Write(append(raw, 0))
	}
	c.mu.Unlock()
	if err != nil {
		return err
	}
	select {
	case got := <-done:
		if got.Error != nil {
			return fmt.Errorf("%s: %s", method, got.Error.Message)
		}
		if into != nil {
			return json.Unmarshal(got.Result, into)
		}
		return nil
	case <-c.ended:
		return fmt.Errorf("%s: chromium is gone", method)
	case <-time.After(testkit.Patience):
		return fmt.Errorf("%s: no reply", method)
	}
}

// A tab is a page in the browser.
type tab struct {
	t       testing.TB
	browser *chromium
	session string
	mu      sync.Mutex
	log     []string // errors of its scripts, and what its policy refused
	urls    []string // all that it requested
}

// newTab opens a tab, with what it stores apart from other tabs.
func (c *chromium) newTab(t testing.TB, width, height int) *tab {
	t.Helper()
	var context struct{ BrowserContextID string }
	testkit.Must(t, c.call("", "Target.createBrowserContext", nil, &context))
	var target struct{ TargetID string }
	testkit.Must(t, c.call("", "Target.createTarget", map[string]any{
		"url": "about:blank", "browserContextId": context.BrowserContextID,
	}, &target))
	var attached struct{ SessionID string }
	testkit.Must(t,
		c.call("", "Target.attachToTarget", map[string]any{"targetId": target.TargetID, "flatten": true}, &attached))
	b := &tab{t: t, browser: c, session: attached.SessionID}
	c.mu.Lock()
	c.onEvent[b.session] = b.event
	c.mu.Unlock()
	for _, domain := range []string{"Page", "Runtime", "Log", "Network"} {
		b.do(domain+".enable", nil)
	}
	b.resize(width, height)
	t.Cleanup(func() {
		_ = c.call("", "Target.disposeBrowserContext", map[string]any{"browserContextId": context.BrowserContextID},
			nil)
	})
	return b
}

func (b *tab) event(method string, params json.RawMessage) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch method {
	case "Runtime.exceptionThrown", "Log.entryAdded":
		b.log = append(b.log, string(params))
	case "Network.requestWillBeSent":
		var p struct{ Request struct{ URL string } }
		if json.Unmarshal(params, &p) == nil {
			b.urls = append(b.urls, p.Request.URL)
		}
	}
}

func (b *tab) do(method string, params map[string]any) {
	b.t.Helper()
	testkit.Must(b.t, b.browser.call(b.session, method, params, nil))
}

func (b *tab) resize(width, height int) {
	b.t.Helper()
	b.do("Emulation.setDeviceMetricsOverride", map[string]any{
		"width": width, "height": height, "deviceScaleFactor": 2, "mobile": width < 600,
	})
}

// prefer sets the colour scheme that the system prefers.
func (b *tab) prefer(scheme string) {
	b.t.Helper()
	b.do("Emulation.setEmulatedMedia", map[string]any{
		"features": []map[string]string{{"name": "prefers-color-scheme", "value": scheme}},
	})
}

func (b *tab) open(url string) {
	b.t.Helper()
	b.do("Page.navigate", map[string]any{"url": url})
}

// eval evaluates an expression, which may be a promise.
func (b *tab) eval(expression string, into any) error {
	var got struct {
		Result           struct{ Value json.RawMessage }
		ExceptionDetails *struct{ Exception struct{ Description string } }
	}
	err := b.browser.call(b.session, "Runtime.evaluate", map[string]any{
		"expression": expression, "awaitPromise": true, "returnByValue": true, "userGesture": true,
	}, &got)
	switch {
	case err != nil:
		return err
	case got.ExceptionDetails != nil:
		return fmt.Errorf("%s: %s", expression, got.ExceptionDetails.Exception.Description)
	case into == nil || got.Result.Value == nil:
		return nil
	}
	return json.Unmarshal(got.Result.Value, into)
}

// run evaluates an expression that must not fail.
func (b *tab) run(expression string) {
	b.t.Helper()
	testkit.Must(b.t, b.eval(expression, nil))
}

// text returns the text of the first element that fits, or "".
func (b *tab) text(selector string) (text string) {
	b.t.Helper()
	testkit.Must(b.t, b.eval(fmt.Sprintf("document.querySelector(%q)?.innerText ?? ''", selector), &text))
	return text
}

// number evaluates an expression to a number.
func (b *tab) number(expression string) (n float64) {
	b.t.Helper()
	testkit.Must(b.t, b.eval(expression, &n))
	return n
}

// await waits until an expression is true. A document that is being replaced is not.
func (b *tab) await(expression string) {
	b.t.Helper()
	var err error
	isSo := func() bool {
		var is bool
		err = b.eval("Boolean("+expression+")", &is)
		return err == nil && is
	}
	if !testkit.Soon(testkit.Patience, isSo) {
		b.shot("failed")
		b.t.Fatalf("not so: %s (%v); the page says: %.2000s; its log: %q", expression, err, b.text("body"), b.errors())
	}
}

// press presses keys.
func (b *tab) press(keys ...string) {
	b.t.Helper()
	for _, key := range keys {
		params := map[string]any{"type": "keyDown", "key": key}
		if len(key) == 1 {
			params["text"] = key
		} else if key == "Enter" {
			params["text"] = "\r"
		}
		if code := map[string]int{"Enter": 13, "Escape": 27, "ArrowDown": 40, "ArrowUp": 38, "End": 35,
			"Home": 36}[key]; code != 0 {
			params["windowsVirtualKeyCode"] = code
		}
		b.do("Input.dispatchKeyEvent", params)
		b.do("Input.dispatchKeyEvent", map[string]any{"type": "keyUp", "key": key})
	}
}

// errors returns what went wrong in the page so far.
func (b *tab) errors() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]string{}, b.log...)
}

// picturesEnv names a folder for pictures of the page.
const picturesEnv = "HOLDFAST_UI_PICTURES"

// shot takes a picture if there is a folder for it.
func (b *tab) shot(name string) {
	b.t.Helper()
	folder := os.Getenv(picturesEnv)
	if folder == "" {
		return
	}
	var got struct{ Data string }
	testkit.Must(b.t, b.browser.call(b.session, "Page.captureScreenshot", map[string]any{"format": "png"}, &got))
	raw, err := base64.StdEncoding.DecodeString(got.Data)
	testkit.Must(b.t, err)
	testkit.Must(b.t, os.WriteFile(folder+"/"+strings.ReplaceAll(name, " ", "-")+".png", raw, 0o600))
}

// pause waits for what has no state to wait for: time that passes on the page.
func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
