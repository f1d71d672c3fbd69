package zkstore

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/internal/sessionserver"
	"github.com/holdfast-go/holdfast/store"
)

var _ store.Examiner = (*Store)(nil)

// wordWithin bounds how long a server may take to respond to a four-letter word.
const wordWithin = 2 * time.Second

// Examine implements store.Examiner. It sends each server the four-letter words srvr and conf, as far as they are
// allowed, and begins a session of the shortest timeout, which it ends at once: that tells the servers' tick.
func (s *Store) Examine(ctx context.Context) []store.Finding {
	nodes := s.examineServers(ctx)
	return []store.Finding{
		s.permissions(), majorityOf(nodes, s.ensemble(ctx)), versionsOf(nodes), s.tick(ctx, nodes),
		sessionserver.Clock(s.TTL), s.space(ctx),
	}
}

func (s *Store) permissions() store.Finding {
	f := store.Finding{Check: "permissions", Found: "connected without a user; every client that reaches the servers " +
		"can take locks away"}
	switch user := s.servers.user; {
	case user != "":
		f.Found = "connected as " + store.Quote(user) + "; nodes are made for this user alone"
	case s.servers.hasUser():
		f.Found = "connected with the user of WithCredentials; nodes are made for this user alone"
	}
	return f
}

// A serverReport is what a server responds to four-letter words.
type serverReport struct {
	address string
	srvr    map[string]string // of the queues "Name: value"; nil: it does not respond so
	conf    map[string]string // of the queues "name=value"
	err     error             // why there is no connection
}

func (s *Store) examineServers(ctx context.Context) []serverReport {
	all := make([]serverReport, len(s.servers.servers))
	var asked sync.WaitGroup
	for i, address := range s.servers.servers {
		asked.Go(func() {
			r := serverReport{address: address}
			var text string
			if text, r.err = s.word(ctx, address, "srvr"); r.err == nil {
				r.srvr = pairs(text, ": ")
				text, _ = s.word(ctx, address, "conf")
				r.conf = pairs(text, "=")
			}
			all[i] = r
		})
	}
	asked.Wait()
	return all
}

// word sends a four-letter word, and returns the response.
func (s *Store) word(ctx context.Context, address, word string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, wordWithin)
	defer cancel()
	conn, err := s.servers.dial(ctx, "tcp", address)
	if err != nil {
		return "", err
	}
	defer conn.Close()                           //nolint:errcheck // the response is there
	conn.SetDeadline(time.Now().Add(wordWithin)) //nolint:errcheck // there is one, or the read fails
	if _, err := io.WriteString(conn, word); err != nil {
		return "", err
	}
	text, err := io.ReadAll(io.LimitReader(conn, 1<<16))
	if len(text) > 0 {
		err = nil
	}
	return string(text), err
}

// pairs parses lines of a name and a value.
func pairs(text, separator string) map[string]string {
	all := map[string]string{}
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), separator); ok {
			all[name] = value
		}
	}
	return all
}

// ensemble returns how many servers vote, by the servers' own configuration, or 0 if that cannot be read.
func (s *Store) ensemble(ctx context.Context) (voters int) {
	c, err := s.Session(ctx)
	if err != nil {
		return 0
	}
	data, err := read(ctx, c, "/zookeeper/config")
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(data)) {
		if strings.HasPrefix(line, "server.") && !strings.Contains(line, ":observer") {
			voters++
		}
	}
	return voters
}

// majorityOf reports how many servers respond, and whether one leads.
func majorityOf(nodes []serverReport, voters int) store.Finding {
	f := store.Finding{Check: "majority"}
	var away, modes []string
	silent := false
	for _, n := range nodes {
		switch mode := n.srvr["Mode"]; {
		case n.err != nil:
			away = append(away, fmt.Sprintf("%s (%v)", n.address, n.err))
		case mode == "":
			silent = true
		default:
			modes = append(modes, mode)
		}
	}
	total := max(voters, len(nodes))
	f.Found = fmt.Sprintf("%d of %d servers of the URL respond (%s)", len(nodes)-len(away), len(nodes),
		strings.Join(modes, ", "))
	if voters > 0 {
		f.Found += fmt.Sprintf("; %d servers vote", voters)
	}
	switch {
	case len(away) > 0:
		f.Found += ", and not " + strings.Join(away, ", ")
		sessionserver.Warn(&f, "fewer failures are left until no majority is there, and no lock is granted",
			"start the servers that are away")
	case slices.Contains(modes, "standalone") || total == 1:
		f.Found = "it is one server"
		sessionserver.Warn(&f, "while it is away no lock is granted or renewed",
			"run three servers or five in production")
	case voters > len(nodes):
		sessionserver.Warn(&f, "a client that knows a part of the servers cannot use the others when these fail",
			"name all servers in the URL")
	case silent:
		f.Found += "; srvr is not among the servers' 4lw.commands.whitelist, so that their modes are not known"
	}
	return f
}

// versionsOf reports the versions of the servers.
func versionsOf(nodes []serverReport) store.Finding {
	var all []string
	for _, n := range nodes {
		if version, _, _ := strings.Cut(n.srvr["Zookeeper version"], ","); version != "" &&
			!slices.Contains(all, version) {
			all = append(all, version)
		}
	}
	f := store.Finding{Check: "version", Found: "ZooKeeper " + strings.Join(all, ", ")}
	switch len(all) {
	case 0:
		f.Found = "not known: srvr is not among the servers' 4lw.commands.whitelist"
	case 1:
	default:
		sessionserver.Warn(&f, "servers of different versions are meant for the time of an upgrade only",
			"upgrade the servers that are older")
	}
	return f
}

// tick compares the servers' tickTime with the tick that the store is configured with.
func (s *Store) tick(ctx context.Context, nodes []serverReport) store.Finding {
	told := s.servers.tick
	f := store.Finding{Check: "tick", Found: "the servers' tickTime is not known"}
	var found time.Duration
	certain := true
	for _, n := range nodes {
		if ms, err := strconv.Atoi(n.conf["tickTime"]); err == nil {
			found = max(found, time.Duration(ms)*time.Millisecond)
		}
	}
	if found == 0 {
		certain = false
		for _, n := range nodes {
			if least, err := s.leastTimeout(ctx, n.address); err == nil {
				found = max(found, least/2) // unless minSessionTimeout is set
			}
		}
	}
	if found == 0 {
		return f
	}
	f.Found = fmt.Sprintf("tickTime is %v, and the store was told %v", found, told)
	if !certain {
		f.Found = fmt.Sprintf("the shortest session is %v, which makes a tickTime of %v; the store was told %v",
			2*found, found, told)
	}
	switch {
	case found > told:
		f.Level = store.Fail
		if !certain {
			f.Level = store.Warn
		}
		f.Why = "with a longer tick than the store reckons with, a lease can be believed for longer than the " +
			"servers keep it"
		f.Fix = fmt.Sprintf("append tick=%v to the URL of all clients, or set tickTime=%d at the servers", found,
			told.Milliseconds())
	case 4*found < told:
		f.Found += fmt.Sprintf("; tick=%v would make leases last that much longer", found)
	}
	return f
}

// leastTimeout returns the timeout of the shortest session that a server grants: it is twice its tickTime unless its
// configuration says otherwise. The session ends at once.
func (s *Store) leastTimeout(ctx context.Context, address string) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, wordWithin)
	defer cancel()
	conn, err := s.servers.dial(ctx, "tcp", address)
	if err != nil {
		return 0, err
	}
	defer conn.Close()                           //nolint:errcheck // the response is there
	conn.SetDeadline(time.Now().Add(wordWithin)) //nolint:errcheck // there is one, or the read fails
	// Protocol version, last zxid seen, timeout in milliseconds, session, and a password of 16 bytes.
	request := make([]byte, 4+8+4+8+4+16)
	binary.BigEndian.PutUint32(request[12:], 1)
	binary.BigEndian.PutUint32(request[24:], 16)
	if err := send(conn, request); err != nil {
		return 0, err
	}
	response := make([]byte, 12)
	if _, err := io.ReadFull(conn, response); err != nil {
		return 0, err
	}
	least := time.Duration(binary.BigEndian.Uint32(response[8:])) * time.Millisecond
	if least <= 0 || least > MaxTTL {
		return 0, errors.New("the response is not one of ZooKeeper")
	}
	const closeSession = -11
	end := make([]byte, 8) // the request's number, and its kind
	binary.BigEndian.PutUint32(end, 1)
	kind := int32(closeSession)
	binary.BigEndian.PutUint32(end[4:], uint32(kind)) //nolint:gosec // two's complement is meant
	if err := send(conn, end); err != nil {
		return 0, err
	}
	// The server disconnects when the session has ended. A connection that is closed before everything was read is
	// reset, and the request may be lost with it.
	_, _ = io.Copy(io.Discard, conn)
	return least, nil
}

// send sends a request after its length.
func send(conn net.Conn, request []byte) error {
	_, err := conn.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(request))),
		request...)) //nolint:gosec // short
	return err
}

// space reports nodes among the queues that are not Holdfast's, or that never expire.
func (s *Store) space(ctx context.Context) store.Finding {
	f := store.Finding{Check: "nodes", Found: "no nodes of others lie where locks are kept"}
	if s.servers.layout.foreign() {
		f.Found = "the layout is Curator's, whose nodes are shared with other programs"
		return f
	}
	c, err := s.Session(ctx)
	if err != nil {
		return f
	}
	children, err := s.servers.children(ctx, c, s.servers.tenant())
	var foreign []string
	for _, child := range children {
		if !slices.Contains([]string{"id", "line", "session", "tenant", "number"}, child) {
			foreign = append(foreign, child)
		}
	}
	if err == nil && len(foreign) > 0 {
		f.Found = fmt.Sprintf("%d nodes below %s are not Holdfast's, such as %s", len(foreign), s.servers.tenant(),
			store.Quote(foreign[0]))
		sessionserver.Warn(&f, "another program writes where locks are kept",
			"zkCli.sh deleteall PATH, or give locks a chroot: zk://HOST/PATH")
	}
	return f
}
