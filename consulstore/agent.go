package consulstore

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
	"unicode"
)

// An agent sends requests to Consul's HTTP interface.
type agent struct {
	*settings
	dialer *dialer
	client *http.Client
	token  atomic.Pointer[string] // nil: to be read
}

// The numbers of connections that a client has at most. By default an agent accepts 200 from one address. Calls cannot
// use the connections of blocking queries or renewals, however many are in progress.
const (
	callConnections    = 16
	queryConnections   = maxQueries + 1 // one for the session
	renewalConnections = 1
)

// newAgent returns an agent with connections of its own, at most so many. Requests beyond that wait for one.
func newAgent(set *settings, d *dialer, connections int) *agent {
	transport := &http.Transport{
		DialContext:         d.dial,
		DialTLSContext:      d.dialTLS,
		MaxConnsPerHost:     connections,
		MaxIdleConnsPerHost: connections,
		MaxIdleConns:        connections, // those to an address that was left count too
		IdleConnTimeout:     time.Minute,
	}
	// No redirect is followed: Consul's interface has none, and the token is for the agent alone.
	stay := func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &agent{settings: set, dialer: d, client: &http.Client{Transport: transport, CheckRedirect: stay}}
}

// A refusal is a response that is not a result.
type refusal struct {
	code int
	text string
}

func (r *refusal) Error() string {
	if r.text == "" {
		return http.StatusText(r.code)
	}
	return r.text
}

// isRefusal reports whether err is a refusal with this status code.
func isRefusal(err error, code int) bool {
	r, refused := errors.AsType[*refusal](err)
	return refused && r.code == code
}

// mayHaveBeenDone reports whether a request that failed with err may have been carried out, or may still be.
func mayHaveBeenDone(err error) bool {
	r, refused := errors.AsType[*refusal](err)
	_, rolledBack := errors.AsType[*failedOp](err)
	return err != nil && !rolledBack && (!refused || r.code >= http.StatusInternalServerError)
}

// call sends a request, and decodes its result. index is Consul's, or 0 if the response has none.
func (a *agent) call(
	ctx context.Context, method, path string, query url.Values, body, result any,
) (index uint64, err error) {
	x := exchange{agent: a, method: method, path: path, query: query, body: body, result: result}
	for x.prepare(ctx) {
		x.finish(a.client.Do(x.request))
	}
	return x.index, x.err
}

// readToken returns the current token.
func (a *agent) readToken(ctx context.Context) (*string, error) {
	if token := a.token.Load(); token != nil {
		return token, nil
	}
	token, err := a.credentials(ctx)
	if err != nil {
		return nil, err
	}
	if strings.ContainsFunc(token, unicode.IsControl) {
		return nil, final(errors.New("the token has a control character in it"))
	}
	a.hide(token)
	a.token.Store(&token)
	return &token, nil
}

// forgetToken discards a token that Consul has refused, so that it is read again. It reports false if err is not about
// the token.
func (a *agent) forgetToken(token *string, err error) bool {
	if !isRefusal(err, http.StatusForbidden) {
		return false
	}
	a.token.CompareAndSwap(token, nil)
	return true
}

// address returns the URL of a request. Where its connection leads is the dialer's choice.
func (a *agent) address(path string, query url.Values) string {
	u := url.URL{Scheme: "http", Host: a.dialer.host(), Path: path}
	if a.tls != nil {
		u.Scheme = "https"
	}
	if query == nil {
		query = url.Values{}
	}
	if a.datacenter != "" {
		query.Set("dc", a.datacenter)
	}
	if a.namespace != "" {
		query.Set("ns", a.namespace)
	}
	u.RawQuery = query.Encode()
	return u.String()
}

// An op is an operation of a transaction. Its fields are those of Consul's interface.
type op struct {
	Verb      string
	Key       string
	Value     []byte `json:",omitempty"`
	Flags     uint64 `json:",omitempty"`
	Index     uint64 `json:",omitempty"`
	Session   string `json:",omitempty"`
	Namespace string `json:",omitempty"`
}

// An entry is a key, as Consul describes it.
type entry struct {
	Key         string
	Value       []byte
	Flags       uint64
	Session     string
	CreateIndex uint64
	ModifyIndex uint64
}

// lockOp writes a key and locks it by a session. It fails if another session has it locked.
func lockOp(key, session string, value string) op {
	return op{Verb: "lock", Key: key, Session: session, Value: []byte(value)}
}

// unlockOp unlocks a key, whose value is empty then. It fails if this session does not have it locked.
func unlockOp(key, session string) op { return op{Verb: "unlock", Key: key, Session: session} }

// casOp writes a key if it still has this modify index.
func casOp(key string, index uint64, value string) op {
	return op{Verb: "cas", Key: key, Index: index, Value: []byte(value)}
}

// getOp reads a key, which may not exist.
func getOp(key string) op { return op{Verb: "get-or-empty", Key: key} }

// deleteOp deletes a key.
func deleteOp(key string) op { return op{Verb: "delete", Key: key} }

// deleteAtOp deletes a key if it still has this modify index.
func deleteAtOp(key string, index uint64) op { return op{Verb: "delete-cas", Key: key, Index: index} }

// treeOp reads all keys with a prefix.
func treeOp(prefix string) op { return op{Verb: "get-tree", Key: prefix} }

// checkIndexOp fails the transaction unless the key has this modify index.
func checkIndexOp(key string, index uint64) op {
	return op{Verb: "check-index", Key: key, Index: index}
}

// checkSessionOp fails the transaction unless the key is locked by this session.
func checkSessionOp(key, session string) op {
	return op{Verb: "check-session", Key: key, Session: session}
}

// A failedOp is an operation because of which a transaction was rolled back.
type failedOp struct {
	index int
	what  string
}

func (f *failedOp) Error() string { return f.what }

// txn carries out operations in one step, or none of them. A transaction that writes needs a majority of the servers;
// one that only reads is served by a leader that has verified its leadership. It returns the keys that the operations
// have read or written, in their order. If it was rolled back, the error is a *failedOp, or a *refusal because of the
// token.
func (a *agent) txn(ctx context.Context, ops ...op) ([]entry, error) {
	body := make([]struct{ KV op }, len(ops))
	for i, o := range ops {
		o.Namespace = a.namespace
		body[i].KV = o
	}
	var result txnResult
	x := exchange{agent: a, method: http.MethodPut, path: "/v1/txn", query: url.Values{"consistent": {""}}, body: body,
		result: &result}
	for x.prepare(ctx) { // as in call, which would be one more function between Lock and the connection
		x.finish(a.client.Do(x.request))
	}
	if x.err != nil {
		return nil, x.err
	}
	entries := make([]entry, 0, len(result.Results))
	for _, r := range result.Results {
		if r.KV.ModifyIndex != 0 { // otherwise there is no such key
			entries = append(entries, r.KV)
		}
	}
	return entries, nil
}

// A txnResult is the body of the response to a transaction.
type txnResult struct {
	Results []struct{ KV entry }
	Errors  []struct {
		OpIndex int
		What    string
	}
}

// failure returns why the transaction was rolled back, or nil: a refusal because of the token, or a failedOp.
func (t *txnResult) failure() error {
	if len(t.Errors) == 0 {
		return nil
	}
	first := t.Errors[0]
	if strings.HasPrefix(first.What, permissionDenied) {
		return &refusal{http.StatusForbidden, oneLine(first.What)}
	}
	return &failedOp{first.OpIndex, oneLine(first.What)}
}

// permissionDenied is the beginning of Consul's message about a missing permission.
const permissionDenied = "Permission denied"

// list reads a key, or the keys that begin with it, as the query says, and returns Consul's index. If there is none,
// result stays empty. A 404 without an index comes from something else, such as a proxy.
func (a *agent) list(ctx context.Context, key string, query url.Values, result any) (index uint64, err error) {
	index, err = a.call(ctx, http.MethodGet, "/v1/kv/"+key, query, nil, result)
	switch {
	case index > 0 && isRefusal(err, http.StatusNotFound):
		return index, nil
	case err == nil && index == 0:
		err = errors.New("the response to a query of keys has no index")
	}
	return index, err
}

// block returns a key, or all keys that begin with it, once that has changed since index, and the index for the next
// call. With index 0 it returns at once, and otherwise after some time also without a change. It fails when the address
// in use is left.
//
// It is a consistent read: the absence of a key is taken as proof, and a leader that was deposed and does not know it
// yet may never have received the key.
func (a *agent) block(
	ctx context.Context, key string, recurse bool, index uint64,
) (entries []entry, next uint64, err error) {
	ctx, cancel := context.WithTimeout(ctx, queryWait+queryWait/16+queryLate)
	defer cancel()
	_, left := a.dialer.here()
	defer context.AfterFunc(left, cancel)()
	query := url.Values{"consistent": {""}, "index": {strconv.FormatUint(index, 10)}, "wait": {queryWait.String()}}
	if recurse {
		query.Set("recurse", "")
	}
	next, err = a.list(ctx, key, query, &entries)
	return entries, next, err
}

// Consul continues a blocking query until its wait is over, even if the client has cancelled it, and adds up to a
// sixteenth.
const (
	queryWait = 10 * time.Second
	queryLate = 2 * time.Second
)
