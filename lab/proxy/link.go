package proxy

import "sync"

// A Link is a proxy in the hands of the suite in store/storetest: it implements storetest.Link for a store whose only
// way to its server is this proxy. Where replies and pushes share a connection, it holds both back together and
// drops neither.
type Link struct {
	proxy *Proxy

	mu     sync.Mutex
	killed bool
	mend   func() // undoes the cut; nil: it is not cut
	resume func() // ends the dropping of pushes; nil: they are not dropped
}

// Link gives the proxy into the hands of the suite. There is one for each proxy, and one proxy for each client.
func (p *Proxy) Link() *Link { return &Link{proxy: p} }

// HoldRequests keeps requests on their way to the server until release. They then land even if their callers have
// given up, and also if they have closed the connection.
func (l *Link) HoldRequests() (release func()) { return l.proxy.Hold(Requests) }

// HoldReplies lets requests land and keeps their answers on the way back until release.
func (l *Link) HoldReplies() (release func()) { return l.proxy.Hold(Replies) }

// HoldPushes keeps pushes on their way to the client until release.
func (l *Link) HoldPushes() (release func()) { return l.proxy.Hold(Pushes) }

// DropPushes loses every push while it is on. A connection that has lost one is closed when it is off again.
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

// Cut breaks the connection. Calls fail, also those under way. What was held back is lost for ever.
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

// Heal undoes Cut. What holds requests or answers back goes on doing so.
func (l *Link) Heal() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.mend != nil && !l.killed {
		l.mend()
		l.mend = nil
	}
}

// Kill is the end of the client: the link is cut and never heals.
func (l *Link) Kill() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.killed = true
	l.cut()
}
