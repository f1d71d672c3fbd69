package consulstore_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/consulstore"
	"github.com/holdfast-go/holdfast/internal/testkit"
)

// A fate is what becomes of a request.
type fate int

const (
	delivered  fate = iota
	unanswered      // it lands, and its response is lost
	stranded        // it is kept on its way until land
	denied          // Consul refuses it, because of the token
)

// What a ferry decides on: transactions with these operations.
var (
	moves  = []string{"check-index", "lock"}     // Join, Detach and Attach
	writes = []string{"check-session", "cas"}    // Keep
	leaves = []string{"check-session", "delete"} // Leave of a detached claim
)

// A ferry is a client's way to its server. It decides on the fate of the next Join, or of another transaction.
type ferry struct {
	http.RoundTripper

	mu   sync.Mutex
	next fate
	of   []string      // the operations of what it decides on
	kept *http.Request // stranded

	loses atomic.Bool // it loses requests to end sessions
	body  []byte
}

// newFerry opens a store that has a ferry.
func newFerry(t testing.TB, server string, ttl time.Duration) (*ferry, *consulstore.Store) {
	t.Helper()
	f := &ferry{}
	way := func(own http.RoundTripper) http.RoundTripper {
		f.RoundTripper = own
		return f
	}
	s, err := consulstore.OpenOver(t.Context(), way, []string{server}, consulstore.WithTTL(ttl))
	testkit.Must(t, err)
	t.Cleanup(func() { s.Close() })
	return f, s
}

// decide sets the fate of the next Join, Detach or Attach.
func (f *ferry) decide(next fate) { f.decideOn(moves, next) }

// decideOn sets the fate of the next transaction with these operations. What was stranded before is forgotten.
func (f *ferry) decideOn(verbs []string, next fate) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.next, f.of, f.kept = next, verbs, nil
}

// strand strands the next transaction with these operations, cancels call then, and returns its error.
func (f *ferry) strand(t testing.TB, verbs []string, call func(context.Context) error) error {
	t.Helper()
	f.decideOn(verbs, stranded)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	failed := make(chan error, 1)
	go func() { failed <- call(ctx) }()
	testkit.Await(t, "the transaction is on its way", func() bool {
		f.mu.Lock()
		defer f.mu.Unlock()
		return f.kept != nil
	})
	cancel()
	return <-failed
}

// CloseIdleConnections is called by http.Client.
func (f *ferry) CloseIdleConnections() { f.RoundTripper.(*http.Transport).CloseIdleConnections() }

// RoundTrip implements http.RoundTripper.
func (f *ferry) RoundTrip(r *http.Request) (*http.Response, error) {
	if f.loses.Load() && strings.HasPrefix(r.URL.Path, "/v1/session/destroy/") {
		return nil, errors.New("the request is lost")
	}
	var body []byte
	if r.Body != nil {
		var err error
		if body, err = io.ReadAll(r.Body); err != nil {
			return nil, err
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
	}
	switch f.fateOf(r, body) {
	case stranded:
		<-r.Context().Done()
		return nil, r.Context().Err()
	case denied:
		return &http.Response{
			StatusCode: http.StatusForbidden, Header: http.Header{}, Request: r,
			Body: io.NopCloser(strings.NewReader("Permission denied: token lacks permission 'key:write'")),
		}, nil
	case unanswered:
		response, err := f.RoundTripper.RoundTrip(r)
		if err != nil {
			return nil, err
		}
		_, _ = io.Copy(io.Discard, response.Body)
		response.Body.Close()
		return nil, errors.New("the response is lost")
	default:
		return f.RoundTripper.RoundTrip(r)
	}
}

// fateOf returns what becomes of a request. One that is stranded is kept.
func (f *ferry) fateOf(r *http.Request, body []byte) fate {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.next == delivered || slices.ContainsFunc(f.of, func(verb string) bool {
		return !bytes.Contains(body, []byte(`"Verb":"`+verb+`"`))
	}) {
		return delivered
	}
	decided := f.next
	if f.next = delivered; decided == stranded {
		f.kept, f.body = r, body
	}
	return decided
}

// land has the request arrive that was stranded, and returns how Consul responds. Without its epoch it is a Join as a
// store would send it that does not know of epochs, and a Detach as one that does not check what it moves.
func (f *ferry) land(t testing.TB, withoutEpoch bool) (status int) {
	t.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.kept == nil {
		t.Fatal("no request is stranded")
	}
	if withoutEpoch {
		var ops []map[string]map[string]any
		testkit.Must(t, json.Unmarshal(f.body, &ops))
		ops = slices.DeleteFunc(ops,
			func(op map[string]map[string]any) bool { return op["KV"]["Verb"] == "check-index" })
		var err error
		f.body, err = json.Marshal(ops)
		testkit.Must(t, err)
	}
	late := f.kept.Clone(context.Background())
	late.Body, late.ContentLength = io.NopCloser(bytes.NewReader(f.body)), int64(len(f.body))
	response, err := f.RoundTripper.RoundTrip(late)
	testkit.Must(t, err)
	defer response.Body.Close()
	_, err = io.Copy(io.Discard, response.Body)
	testkit.Must(t, err)
	return response.StatusCode
}
