package proxy

import "sync"

// A Link implements storetest.Link with a proxy, for a store whose only connection to its server is through this proxy.
// Where replies and pushes share a connection, it holds both back together and drops neither.
type Link struct {
	proxy *Proxy

	mu     sync.Mutex
	killed bool
	mend   func() // undoes the cut; nil: it is not cut
	resume func() // ends the dropping of pushes; nil: they are not dropped
}

// Link returns a storetest.Link that controls the proxy. There is one for each proxy, and one proxy for each client.
func (p *Proxy) Link() *Link { return &Link{proxy: p} }

// HoldRequests holds requests back until release. They then arrive even if their callers have given up or closed the
// connection.
func (l *Link) HoldRequests() (release func()) { return l.proxy.Hold(Requests) }

// HoldReplies lets requests arrive and holds their responses back until release.
func (l *Link) HoldReplies() (release func()) { return l.proxy.Hold(Replies) }

// HoldPushes holds pushes back until release.
func (l *Link) HoldPushes() (release func()) { return l.proxy.Hold(Pushes) }

// DropPushes discards every push while it is on. A connection that has lost one is closed when it is off again.
func (l *Link) DropPushes(on bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case on && l.resume == nil:
		l.resume = l.proxy.Silence(Pushes)
	case !on && l.resume != nil:
		l.resume()
		l.resume = nil
	}
}

// Cut breaks the connection. Calls fail, also those under way. Messages that were held back are lost for good.
func (l *Link) Cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cut()
}

func (l *Link) cut() {
	if l.mend == nil {
		l.mend = l.proxy.Cut()
	}
}

// Heal undoes Cut. Requests and responses that are held back stay so.
func (l *Link) Heal() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.mend != nil && !l.killed {
		l.mend()
		l.mend = nil
	}
}

// Kill ends the client as a crash would: the link is cut for good.
func (l *Link) Kill() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.killed = true
	l.cut()
}
