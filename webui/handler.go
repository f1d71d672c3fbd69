package webui

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/store"
)

const (
	defaultMaxViewers = 256
	maxBody           = 64 << 10         // bytes of a request
	maxRefresh        = 100              // names of a refresh
	writeLimit        = 10 * time.Second // how long a viewer may take to receive a message
	breakLimit        = 10 * time.Second // how long a break may take
	healthFor         = 30 * time.Second // how long the result of a health check is kept
	healthLimit       = time.Minute      // how long a health check may take
)

// A Handler serves the page and its data. It is safe for concurrent use. Close it when it is no longer needed.
type Handler struct {
	settings
	client *holdfast.Client
	hub    *hub
	close  context.CancelFunc

	healthMu sync.Mutex // held while the check runs
	healthAt time.Time
	checks   []Check
}

// New returns a handler for the locks of a client, which it does not close. It returns an error if an option is
// invalid.
func New(client *holdfast.Client, options ...Option) (*Handler, error) {
	if client == nil {
		return nil, errors.New("webui: New was given no client")
	}
	defaults := settings{base: "/", hosts: map[string]bool{}, maxViewers: defaultMaxViewers}
	h := &Handler{client: client, settings: defaults}
	for _, option := range options {
		if err := option(&h.settings); err != nil {
			return nil, err
		}
	}
	closed, cancel := context.WithCancel(context.Background())
	h.close, h.hub = cancel, newHub(closed, client, h.prefix, h.maxViewers)
	return h, nil
}

// Close disconnects all viewers and stops the watch. [http.Server.Shutdown] waits for viewers: call Close before it, or
// pass Close to [http.Server.RegisterOnShutdown].
func (h *Handler) Close() {
	h.close()
	h.hub.close()
}

// Fragment returns the end of a URL by which the page receives the token, or "" without [WithToken]. Browsers do not
// send it to servers.
func (h *Handler) Fragment() string {
	if h.token == "" {
		return ""
	}
	return "#token=" + url.QueryEscape(h.token)
}

// ServeHTTP implements [http.Handler].
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	setHeaders(w.Header())
	if !h.allowsHost(r.Host) {
		http.Error(w, "This host name is not allowed here. Use an IP address or localhost, or allow the name (--host).",
			http.StatusMisdirectedRequest)
		return
	}
	name, ok := strings.CutPrefix(r.URL.Path, h.base)
	if !ok {
		if r.URL.Path+"/" == h.base && r.Method == http.MethodGet {
			http.Redirect(w, r, h.base, http.StatusPermanentRedirect)
			return
		}
		http.NotFound(w, r)
		return
	}
	if call, ok := strings.CutPrefix(name, "api/"); ok {
		h.serveCall(w, r, call)
		return
	}
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		http.Error(w, "Method not allowed.", http.StatusMethodNotAllowed)
		return
	}
	serveFile(w, r, cmp.Or(name, "index.html"))
}

// calls are what the page requests, with the method of each.
var calls = map[string]struct {
	method string
	serve  func(*Handler, http.ResponseWriter, *http.Request)
}{
	"info":    {http.MethodGet, (*Handler).serveInfo},
	"events":  {http.MethodGet, (*Handler).serveEvents},
	"queue":   {http.MethodGet, (*Handler).serveQueue},
	"health":  {http.MethodGet, (*Handler).serveHealth},
	"refresh": {http.MethodPost, (*Handler).serveRefresh},
	"break":   {http.MethodPost, (*Handler).serveBreak},
}

// serveCall serves the data of the page, to the page alone.
func (h *Handler) serveCall(w http.ResponseWriter, r *http.Request, name string) {
	w.Header().Set("Cache-Control", "no-store")
	call, ok := calls[name]
	switch {
	case !isSameOrigin(r):
		fail(w, http.StatusForbidden, "Requests of other origins are refused.")
	case !h.hasToken(r):
		w.Header().Set("WWW-Authenticate", `Bearer realm="holdfast ui"`)
		fail(w, http.StatusUnauthorized, "The token is missing or wrong.")
	case !ok:
		fail(w, http.StatusNotFound, "There is no such call.")
	case r.Method != call.method:
		w.Header().Set("Allow", call.method)
		fail(w, http.StatusMethodNotAllowed, "Method not allowed.")
	case r.Method == http.MethodPost && r.Header.Get(changeHeader) == "":
		fail(w, http.StatusForbidden, "The header "+changeHeader+" is missing.")
	default:
		r.Body = http.MaxBytesReader(w, r.Body, maxBody)
		call.serve(h, w, r)
	}
}

// serveInfo returns what does not change.
func (h *Handler) serveInfo(w http.ResponseWriter, _ *http.Request) {
	respond(w, http.StatusOK, map[string]any{
		"store": h.client.Abilities().Store, "url": h.storeURL, "prefix": h.prefix, "break": h.breaks,
		"health": h.health != nil,
	})
}

// serveEvents sends a viewer what changes, until it leaves, is too slow, or the handler is closed.
func (h *Handler) serveEvents(w http.ResponseWriter, r *http.Request) {
	v, err := h.hub.join()
	if err != nil {
		w.Header().Set("Retry-After", "10")
		fail(w, http.StatusServiceUnavailable, "No connection: "+err.Error()+".")
		return
	}
	defer h.hub.leave(v)
	w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
	w.Header().Set("X-Accel-Buffering", "no") // for nginx
	out := http.NewResponseController(w)
	defer out.SetWriteDeadline(time.Time{}) //nolint:errcheck // where deadlines are not supported, none was set
	for {
		select {
		case <-r.Context().Done():
			return
		case msg, ok := <-v.messages:
			if !ok {
				return
			}
			// Without support, a slow viewer is dropped by the hub alone.
			_ = out.SetWriteDeadline(time.Now().Add(writeLimit))
			if _, err := w.Write(msg); err != nil || out.Flush() != nil {
				return
			}
		}
	}
}

// serveQueue returns the detail of one queue.
func (h *Handler) serveQueue(w http.ResponseWriter, r *http.Request) {
	name := r.URL.Query().Get("name")
	if err := store.CheckName(name); err != nil {
		fail(w, http.StatusBadRequest, err.Error())
		return
	}
	h.hub.refresh(r.Context(), []string{name})
	h.hub.mu.Lock()
	d := h.hub.board.detail(name, time.Now())
	h.hub.mu.Unlock()
	respond(w, http.StatusOK, d)
}

// serveRefresh returns rows with the time left as it is now.
func (h *Handler) serveRefresh(w http.ResponseWriter, r *http.Request) {
	var in struct{ Names []string }
	if !read(w, r, &in) {
		return
	}
	if len(in.Names) > maxRefresh {
		fail(w, http.StatusBadRequest, "Too many names.")
		return
	}
	slices.Sort(in.Names)
	in.Names = slices.Compact(in.Names)
	h.hub.refresh(r.Context(), in.Names)
	rows := []json.RawMessage{}
	h.hub.mu.Lock()
	for _, name := range in.Names {
		if q := h.hub.board.queues[name]; q != nil {
			rows = append(rows, q.encoded())
		}
	}
	h.hub.mu.Unlock()
	respond(w, http.StatusOK, map[string]any{"now": time.Now().UnixMilli(), "rows": rows})
}

// serveBreak breaks the claim that has exactly the token that the operator has confirmed, and logs it.
func (h *Handler) serveBreak(w http.ResponseWriter, r *http.Request) {
	if !h.breaks {
		fail(w, http.StatusForbidden, "Breaking is not allowed here (--allow-break).")
		return
	}
	var in struct {
		Name  string
		Token holdfast.Token
	}
	if !read(w, r, &in) {
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), breakLimit)
	defer cancel()
	owner, err := h.breakClaim(ctx, in.Name, in.Token, r.RemoteAddr)
	log := cmp.Or(h.log, slog.Default())
	switch {
	case err == nil:
		log.Warn("holdfast: broken on the page", "name", in.Name, "token", in.Token, "holder", owner, "by",
			r.RemoteAddr)
		respond(w, http.StatusOK, map[string]any{"broken": true})
	case errors.Is(err, holdfast.ErrNotHeld):
		log.Warn("holdfast: not broken on the page: the claim was gone", "name", in.Name, "token", in.Token, "by",
			r.RemoteAddr)
		fail(w, http.StatusConflict, "The claim was gone already. Nothing was broken.")
	case errors.Is(err, holdfast.ErrBadName):
		fail(w, http.StatusBadRequest, err.Error())
	default:
		log.Warn("holdfast: not broken on the page", "name", in.Name, "token", in.Token, "by", r.RemoteAddr, "err", err)
		fail(w, http.StatusBadGateway, err.Error())
	}
}

// breakClaim breaks a claim, and returns its owner. The error is ErrNotHeld if no claim has the token.
func (h *Handler) breakClaim(ctx context.Context, name string, token holdfast.Token,
	by string) (owner store.Owner, err error) {
	q, err := h.client.Inspect(ctx, name)
	if err != nil {
		return owner, err
	}
	i := slices.IndexFunc(q.Entries, func(e holdfast.Entry) bool { return e.Token == token })
	if i < 0 {
		return owner, holdfast.ErrNotHeld
	}
	h.hub.noteBreak(name, token, by)
	if err = h.client.Break(ctx, name, token); err != nil {
		h.hub.forgetBreak(name, token)
	}
	return q.Entries[i].Owner, err
}

// serveHealth returns the result of the health check.
func (h *Handler) serveHealth(w http.ResponseWriter, _ *http.Request) {
	if h.health == nil {
		fail(w, http.StatusNotFound, "There is no health check.")
		return
	}
	h.healthMu.Lock()
	defer h.healthMu.Unlock()
	if time.Since(h.healthAt) > healthFor {
		ctx, cancel := context.WithTimeout(h.hub.closed, healthLimit)
		defer cancel()
		h.checks, h.healthAt = h.health(ctx), time.Now()
	}
	respond(w, http.StatusOK, map[string]any{"at": h.healthAt.UnixMilli(), "checks": append([]Check{}, h.checks...)})
}

// read decodes the JSON of a request. If it cannot, it responds.
func read(w http.ResponseWriter, r *http.Request, into any) bool {
	if err := json.NewDecoder(r.Body).Decode(into); err != nil {
		fail(w, http.StatusBadRequest, "The request is malformed.")
		return false
	}
	return true
}

// respond writes v as a JSON response with this status code.
func respond(w http.ResponseWriter, code int, v any) {
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(v) // the viewer has left
}

// fail writes an error as a JSON response with this status code.
func fail(w http.ResponseWriter, code int, why string) {
	respond(w, code, map[string]string{"error": why})
}
