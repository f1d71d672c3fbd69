package servers

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"

	"github.com/holdfast-go/holdfast/lab/proxy"
)

// zooKeeperLinks are the ways between the nodes of an ensemble that is [Cuttable].
type zooKeeperLinks map[pair]*zooKeeperLink

// A pair of nodes, the first of which dials the second.
type pair struct{ from, to *ZooKeeperServer }

// A zooKeeperLink is the only way from one node to another.
type zooKeeperLink struct {
	quorum, election *proxy.Proxy
	introducer       *acceptor // behind election, if the dialling node has the smaller id
}

// relink makes a link for each pair of nodes, to the ports that they have.
func (c *ZooKeeperServers) relink() error {
	if err := c.links.close(); err != nil {
		return err
	}
	c.links = zooKeeperLinks{}
	for _, small := range c.Nodes {
		for _, great := range c.Nodes[small.id:] {
			if err := c.link(great, small); err != nil {
				return err
			}
			if err := c.link(small, great); err != nil { // it names the other
				return err
			}
		}
	}
	return nil
}

func (c *ZooKeeperServers) link(from, to *ZooKeeperServer) (err error) {
	l := &zooKeeperLink{}
	c.links[pair{from, to}] = l // also half of it is closed
	if l.quorum, err = proxy.Start("tcp", to.addrOf(quorumPort)); err != nil {
		return err
	}
	election := to.addrOf(electionPort)
	if back := c.links[pair{to, from}]; back != nil {
		target, link := election, back.election.Addr()
		l.introducer, err = acceptAt("127.0.0.1:0", func(conn net.Conn) {
			_ = introduce(conn, target, link) // the other node dials, or it does not
		})
		if err != nil {
			return err
		}
		election = l.introducer.Addr().String()
	}
	l.election, err = proxy.Start("tcp", election)
	return err
}

// addrOf returns the address of one of the node's ports.
func (z *ZooKeeperServer) addrOf(port int) string {
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(z.ports[port]))
}

// close closes the proxies of all links, and returns their errors.
func (links zooKeeperLinks) close() (err error) {
	for _, l := range links {
		for _, p := range []*proxy.Proxy{l.quorum, l.election} {
			if p != nil {
				err = errors.Join(err, p.Close())
			}
		}
		if l.introducer != nil { // after the proxy, whose connections it has
			if failed := l.introducer.close(); failed != nil {
				err = errors.Join(err, fmt.Errorf("zookeeper: introducer: %w", failed))
			}
		}
	}
	return err
}

// Isolate cuts a node of a [Cuttable] ensemble off from all others in silence: what they send to each other is held,
// and connections stay open. Its clients stay connected. It does nothing to a node that is cut off already.
func (z *ZooKeeperServer) Isolate() error {
	return z.cut("isolate", func(p pair, l *zooKeeperLink) (mend []func()) {
		if p.from == z || p.to == z {
			mend = append(mend, l.quorum.Hold(proxy.All), l.election.Hold(proxy.All))
		}
		return mend
	})
}

// Mute holds what a follower of a [Cuttable] ensemble sends to its leader. What the leader sends arrives, so that the
// follower knows what is new. It does nothing to a node that is cut off already.
func (z *ZooKeeperServer) Mute() error {
	return z.cut("mute", func(p pair, l *zooKeeperLink) (mend []func()) {
		if p.from == z {
			mend = append(mend, l.quorum.Hold(proxy.Requests))
		}
		return mend
	})
}

// cut does something to links of a node, unless something was done before.
func (z *ZooKeeperServer) cut(what string, do func(pair, *zooKeeperLink) (mend []func())) error {
	if z.ensemble.links == nil {
		return z.failed(what, errors.New("the ensemble was started without Cuttable"))
	}
	z.cuts.Lock()
	defer z.cuts.Unlock()
	if z.cuts.mend != nil {
		return nil
	}
	for p, l := range z.ensemble.links {
		z.cuts.mend = append(z.cuts.mend, do(p, l)...)
	}
	return nil
}

// Rejoin ends what Isolate or Mute began. What was held is delivered. A node that has left the ensemble meanwhile needs
// a moment to come back: see [ZooKeeperServer.AwaitHealthy].
func (z *ZooKeeperServer) Rejoin() {
	z.cuts.Lock()
	defer z.cuts.Unlock()
	for _, mend := range z.cuts.mend {
		mend()
	}
	z.cuts.mend = nil
}

// introduce is a proxy before the election port of a node, for a connection of one with a smaller id. Of the two only
// the node with the greater id dials: the other says no more than its id and its address, hangs up, and is dialled
// there. introduce replaces that address by the link's, which would otherwise be avoided. What is said is a version and
// the id in 16 bytes, and the address after the length of that.
func introduce(conn io.Reader, target, link string) error {
	said, err := io.ReadAll(conn)
	if err != nil || len(said) < 16 {
		return err
	}
	said = binary.BigEndian.AppendUint32(said[:16], uint32(len(link)))
	server, err := net.DialTimeout("tcp", target, askPatience)
	if err != nil {
		return err
	}
	_, err = server.Write(append(said, link...))
	return errors.Join(err, server.Close())
}
