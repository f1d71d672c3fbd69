package vote

import "time"

// An Admitter gives nodes their vote back when their quarantine is over. A client has one, and passes every answer of
// every node to it. Like a claim it is a state machine without a lock.
//
// It gives the node the highest mark of a majority of nodes that vote: one of them has every ticket that was ever
// drawn. A node without a vote may have lost its own, and does not count. Only when a majority of all nodes has lost
// its vote, so that there can be no such majority, it uses the marks of all that answer. Then tickets rise by the
// clocks alone, and all of these nodes are admitted together: once some vote, the others would not be a majority any
// more, and would wait forever.
type Admitter struct {
	rules *Rules
	cases []admission
	seq   uint64
	send  []Send
}

// An admission is the admission of one node.
type admission struct {
	episode  Episode
	seq      uint64 // of its requests; 0: none in progress
	deadline time.Duration
	said     []Answer
	answered []bool
	sent     bool // the mark is on its way to the node
}

// NewAdmitter returns an Admitter for one client.
func NewAdmitter(r *Rules) *Admitter {
	return &Admitter{rules: r, cases: make([]admission, r.Nodes)}
}

// Notice passes any answer of a node, to any request of the client. If the node needs a mark, the marks of the others
// are requested: from now on and not before, since an earlier mark may be less than what the node has lost.
func (m *Admitter) Notice(now time.Duration, node int, a *Answer) Step {
	c := &m.cases[node]
	if a.NeedsMark() && (c.seq == 0 || now >= c.deadline || c.episode != a.Episode) {
		m.seq++
		*c = admission{
			episode: a.Episode, seq: m.seq, deadline: now + m.patience(),
			said: make([]Answer, m.rules.Nodes), answered: make([]bool, m.rules.Nodes),
		}
		c.said[node], c.answered[node] = *a, true
		for other := range m.cases {
			if other != node {
				m.request(other, c, Request{Op: Look})
			}
		}
	}
	return m.step(now)
}

// Answer passes the answer of a node to a request of the Admitter. It need not be passed to Notice as well.
func (m *Admitter) Answer(now time.Duration, node int, seq uint64, a Answer) Step {
	for i := range m.cases {
		c := &m.cases[i]
		switch {
		case c.seq != seq:
		case i == node && a.Code != Failed: // admitted, or refused: then its next answer has what it needs
			*c = admission{}
		case i != node && !c.answered[node] && now < c.deadline:
			c.said[node], c.answered[node] = a, true
		}
	}
	return m.Notice(now, node, &a)
}

// patience is how long marks are collected: less than max-ttl, so that all nodes whose quarantine is over were without
// a vote at one time.
func (m *Admitter) patience() time.Duration {
	return min(m.rules.Timeout(m.rules.MaxTTL), m.rules.MaxTTL/2)
}

// Wake passes the time.
func (m *Admitter) Wake(now time.Duration) Step { return m.step(now) }

func (m *Admitter) request(node int, c *admission, r Request) {
	r.MaxTTL = m.rules.MaxTTL
	m.send = append(m.send, Send{Node: node, Seq: c.seq, Request: r})
}

func (m *Admitter) step(now time.Duration) (s Step) {
	for i := range m.cases {
		c := &m.cases[i]
		if c.seq == 0 || c.sent {
			continue
		}
		if mark, ok, alike := m.mark(c, now); ok {
			c.sent = true
			c.deadline = now + m.patience()
			for j := range c.said {
				if j == i || alike && c.answered[j] && c.said[j].NeedsMark() {
					m.request(j, c, Request{Op: Admit, Ticket: mark, Episode: c.said[j].Episode})
				}
			}
		} else if now < c.deadline {
			s.Wake = Earlier(s.Wake, c.deadline)
		}
	}
	s.Send, m.send = m.send, nil
	return s
}

// mark returns the mark to send, if enough nodes have reported theirs; alike reports that it is for all nodes that need
// one.
func (m *Admitter) mark(c *admission, now time.Duration) (mark uint64, ok, alike bool) {
	voters, served, open := 0, 0, 0
	for i := range c.said {
		switch a := &c.said[i]; {
		case !c.answered[i]:
			open++
			continue
		case a.Votes:
			voters++
		case a.NeedsMark():
			served++
		}
		mark = max(mark, c.said[i].Mark)
	}
	if m.rules.Without.Has(VotersMarks) {
		voters += served
	}
	majority := m.rules.Majority()
	alike = voters < majority && served >= majority && (open == 0 || now >= c.deadline)
	return mark, voters >= majority || alike, alike
}
