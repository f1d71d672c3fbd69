package servers

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"sync"

	"github.com/holdfast-go/holdfast/lab/proxy"
)

// consulLinks are the ways between the servers of a cluster that is [Cuttable]. A server dials from an address of its
// own, and is found at another, where a switchboard listens in its place: that knows a caller by its address, and puts
// it through by the proxy of the two. Gossip and client agents need no proxy.
type consulLinks struct {
	boards  []*acceptor // with a switchboard each
	proxies map[consulPair]*proxy.Proxy
}

// A consulPair is two servers, the first of which dials the second.
type consulPair struct{ from, to *ConsulServer }

// ownIP is where a server of a cuttable cluster listens, and dials from.
func (c *ConsulServer) ownIP() string { return fmt.Sprintf("127.0.1.%d", c.number) }

// foundIP is where the others find it.
func (c *ConsulServer) foundIP() string { return fmt.Sprintf("127.0.2.%d", c.number) }

// addrAt is where it serves the other servers, at an IP address.
func (c *ConsulServer) addrAt(ip string) string {
	return fmt.Sprintf("%s:%d", ip, c.ports[consulServers])
}

// relink makes the links of all servers, to the ports that they have.
func (c *ConsulServers) relink() error {
	if err := c.links.close(); err != nil {
		return err
	}
	c.links = consulLinks{proxies: map[consulPair]*proxy.Proxy{}}
	for _, to := range c.Nodes {
		board := &switchboard{direct: to.addrAt(to.ownIP()), extensions: map[string]string{}}
		for _, from := range c.Nodes {
			if from == to {
				continue
			}
			p, err := proxy.Start("tcp", board.direct)
			if err != nil {
				return err
			}
			c.links.proxies[consulPair{from, to}] = p
			board.extensions[from.ownIP()] = p.Addr()
		}
		listening, err := acceptAt(to.addrAt(to.foundIP()), board.putThrough)
		if err != nil {
			return err
		}
		c.links.boards = append(c.links.boards, listening)
	}
	return nil
}

func (l consulLinks) close() (err error) {
	for _, p := range l.proxies {
		err = errors.Join(err, p.Close())
	}
	for _, board := range l.boards { // after the proxies, whose connections it has
		_ = board.close()
	}
	return err
}

// Depose has another server be elected while the leader hears nothing of it, until hear is called: what the others send
// to it is held, and what it sends arrives. It goes on leading in its own eyes until its lease is over, which is half a
// second times raft_multiplier. The cluster must be [Cuttable], and at rest.
func (c *ConsulServers) Depose(ctx context.Context) (deposed, elected *ConsulServer, hear func(), err error) {
	if c.links.proxies == nil {
		return nil, nil, nil, errors.New("consul: the cluster was started without Cuttable")
	}
	deposed, err = c.Leader()
	if err != nil {
		return nil, nil, nil, err
	}
	var releases []func()
	for pair, p := range c.links.proxies {
		switch deposed {
		case pair.from:
			elected = pair.to
			releases = append(releases, p.Hold(proxy.Down))
		case pair.to:
			releases = append(releases, p.Hold(proxy.Requests))
		}
	}
	hear = sync.OnceFunc(func() {
		for _, release := range releases {
			release()
		}
	})
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var asking sync.WaitGroup
	defer asking.Wait()
	asking.Go(func() { // its response never arrives
		query := url.Values{"id": {elected.id}}
		_ = deposed.Call(ctx, http.MethodPost, "/v1/operator/raft/transfer-leader?"+query.Encode(), nil, nil)
	})
	err = poll(func(context.Context) error {
		if now, err := c.leaderNow(); err != nil || now != elected {
			return errors.Join(errors.New("it leads no majority"), err)
		}
		return nil
	})
	cancel()
	if err != nil {
		hear()
	}
	return deposed, elected, hear, err
}

// A switchboard puts connections through, by the address that they come from.
type switchboard struct {
	direct     string            // where those go that have no extension
	extensions map[string]string // addresses, by IP address
}

// putThrough passes on what is said on a connection, until one side ends it.
func (s *switchboard) putThrough(caller net.Conn) {
	to := s.direct
	if from, ok := caller.RemoteAddr().(*net.TCPAddr); ok && s.extensions[from.IP.String()] != "" {
		to = s.extensions[from.IP.String()]
	}
	called, err := net.DialTimeout("tcp", to, askPatience)
	if err != nil {
		return
	}
	var back sync.WaitGroup
	defer back.Wait()
	defer called.Close() //nolint:errcheck // it is over
	back.Go(func() {
		_, _ = io.Copy(caller, called)
		_ = caller.Close()
	})
	_, _ = io.Copy(called, caller)
}
