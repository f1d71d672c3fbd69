// Package doctor finds out whether a store is fit for locks: whether it can be reached and used, how fast it is, how
// its servers are set up, and what state its queues are in.
//
// What every store has is checked here, over the contract. What one kind of server has is checked by its store, which
// is a [store.Examiner].
package doctor

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/internal/endpoint"
	"github.com/holdfast-go/holdfast/store"
)

const (
	calls       = 50                     // of the round trip
	slow        = 250 * time.Millisecond // a round trip beyond it is a warning
	openWithin  = 12 * time.Second
	dialWithin  = 3 * time.Second
	callsWithin = 10 * time.Second
	probeTTL    = 30 * time.Second // of the claim that is joined and left
)

// A Report is what was found about one store, in the order in which it was examined.
type Report struct {
	Store    string          `json:"store"` // its masked URL
	Findings []store.Finding `json:"findings"`
}

// Worst returns the highest level of all findings.
func (r *Report) Worst() store.Level {
	worst := store.OK
	for _, f := range r.Findings {
		worst = max(worst, f.Level)
	}
	return worst
}

// Run opens the store at a location and examines it. It calls found, which may be nil, with each finding as soon as
// there is one. The error is that of a location that the store has rejected (store.Rejected); every other failure is a
// finding.
func Run(ctx context.Context, at store.Location, found func(store.Finding)) (Report, error) {
	e := examination{found: found}
	reached := make(chan store.Finding, 1)
	go func() { reached <- reach(ctx, at) }()
	opening, cancel := context.WithTimeout(ctx, openWithin)
	defer cancel()
	began := time.Now()
	s, err := store.Open(opening, at)
	took := time.Since(began)
	reach := <-reached
	if store.Rejected(err) {
		return e.report, err // and nothing of the location is shown
	}
	e.report.Store = at.String()
	if reach.Check != "" {
		e.add(reach)
	}
	if err != nil {
		fix := fixFor(at.Scheme, err)
		if reach.Level == store.Fail {
			fix = "see the check before"
		}
		e.add(store.Finding{
			Check: "open", Level: store.Fail, Found: text(err), Why: "no lock can be acquired here", Fix: fix,
		})
		return e.report, nil
	}
	defer s.Close() //nolint:errcheck // it held nothing
	e.add(store.Finding{Check: "open", Found: fmt.Sprintf("%s opens in %v", s.Abilities().Store, rounded(took))})
	e.examine(ctx, s)
	return e.report, nil
}

// An examination makes a report.
type examination struct {
	report Report
	found  func(store.Finding)
}

func (e *examination) add(fs ...store.Finding) {
	e.report.Findings = append(e.report.Findings, fs...)
	if e.found != nil {
		for _, f := range fs {
			e.found(f)
		}
	}
}

func (e *examination) examine(ctx context.Context, s store.Store) {
	s.Notify(func(store.ID, store.Status) {})
	e.add(lock(ctx, s))
	e.add(roundTrip(ctx, s))
	if server, ok := s.(store.Examiner); ok {
		e.add(server.Examine(ctx)...)
	}
	e.add(queues(ctx, s)...)
}

// ports are the default ports of schemes that name hosts, without a final s for TLS.
var ports = map[string]string{
	"redis": "6379", "valkey": "6379", "redlock": "6379", "redis+sentinel": "26379", "valkey+sentinel": "26379",
	"redis+cluster": "6379", "valkey+cluster": "6379",
	"postgres": "5432", "postgresql": "5432", "mysql": "3306", "mariadb": "3306", "etcd": "2379", "zk": "2181",
	"consul": "8500", "consuls": "8501",
}

// portOf returns the default port of a scheme, or "".
func portOf(scheme string) string {
	if port := ports[scheme]; port != "" {
		return port
	}
	plain := strings.Replace(strings.TrimSuffix(scheme, "s"), "s+", "+", 1)
	return ports[plain]
}

// reach connects to each host of a location. For a location without hosts it returns the zero Finding.
func reach(ctx context.Context, at store.Location) (f store.Finding) {
	port := portOf(at.Scheme)
	if port == "" || len(at.Hosts) == 0 {
		return f
	}
	addresses := endpoint.WithPorts(at.Hosts, port)
	whys := make([]string, len(addresses)) // "": it accepts connections
	var dialled sync.WaitGroup
	for i, address := range addresses {
		dialled.Go(func() {
			dialer := net.Dialer{Timeout: dialWithin}
			conn, err := dialer.DialContext(ctx, "tcp", address)
			if err != nil {
				whys[i] = fmt.Sprintf("%s: %v", address, cause(err))
				return
			}
			conn.Close() //nolint:errcheck // nothing was sent
		})
	}
	dialled.Wait()
	whys = slices.DeleteFunc(whys, func(why string) bool { return why == "" })
	f = store.Finding{Check: "reachable", Found: strings.Join(addresses, ", ") + " accept connections"}
	if len(addresses) == 1 {
		f.Found = addresses[0] + " accepts connections"
	}
	if down := len(whys); down > 0 {
		f.Level = store.Warn
		if down == len(addresses) {
			f.Level = store.Fail
		}
		f.Found = fmt.Sprintf("%d of %d addresses do not accept connections: %s", down, len(addresses),
			strings.Join(whys, "; "))
		f.Why = "a store that cannot be reached grants nothing, and leases end when their ttl has passed"
		f.Fix = "start the server, or correct host and port in the URL, or open the firewall; to test: nc -vz HOST PORT"
	}
	return f
}

// cause returns why a connection failed, without the address.
func cause(err error) error {
	if op, ok := errors.AsType[*net.OpError](err); ok {
		return op.Err
	}
	return err
}

// text returns an error in one line.
func text(err error) string {
	return strings.ReplaceAll(strings.TrimPrefix(err.Error(), "holdfast: "), "\n", "; ")
}

// lock joins a queue under a random name and leaves it.
func lock(ctx context.Context, s store.Store) store.Finding {
	able := s.Abilities()
	c := store.Claim{
		Name:   probeName(),
		Demand: store.Demand{Kind: store.Lock, Units: store.MaxReaders, Limit: store.MaxReaders},
		TTL:    min(max(probeTTL, able.MinTTL), able.MaxTTL), Try: true,
		Owner: &store.Owner{Label: "holdfast doctor"},
	}
	if able.SessionTTL > 0 {
		c.TTL = able.SessionTTL
	}
	rand.Read(c.ID[:])
	ctx, cancel := context.WithTimeout(ctx, callsWithin)
	defer cancel()
	began := time.Now()
	status, err := s.Join(ctx, c)
	joined := time.Since(began)
	c.Ticket = status.Ticket
	left := s.Leave(context.WithoutCancel(ctx), c)
	f := store.Finding{Check: "lock", Why: "without that no client can acquire and release locks"}
	switch {
	case err != nil:
		f.Level, f.Found = store.Fail, "a lock under a random name is not granted: "+text(err)
		f.Fix = fixFor(scheme(able.Store), err)
	case left != nil:
		f.Level, f.Found = store.Fail, "a lock under a random name is granted, and not released: "+text(left)
		f.Fix = fixFor(scheme(able.Store), left)
	case status.State != store.Held:
		f.Level, f.Found = store.Fail, "a lock under a random name is not granted at once"
		f.Fix = "wait until a startup delay or a quarantine is over; holdfast redlock status shows the latter"
	default:
		f.Why = ""
		f.Found = fmt.Sprintf("a lock under a random name was acquired in %v and released in %v", rounded(joined),
			rounded(time.Since(began)-joined))
	}
	return f
}

// scheme returns the kind of store that a name of Abilities.Store begins with, as a URL has it.
func scheme(name string) string {
	kind, _, _ := strings.Cut(strings.TrimPrefix(name, "plain "), " ")
	if kind == "zookeeper" {
		kind = "zk"
	}
	return kind
}

// probeName returns a name that no other client uses.
func probeName() string { return "holdfast-doctor-" + strings.ToLower(rand.Text()) }

// roundTrip measures calls that read the queue of a name that is not in use: fewer than usual if they are slow.
func roundTrip(ctx context.Context, s store.Store) store.Finding {
	ctx, cancel := context.WithTimeout(ctx, callsWithin)
	defer cancel()
	name := probeName()
	took := make([]time.Duration, 0, calls)
	f := store.Finding{Check: "round trip"}
	for range calls {
		began := time.Now()
		_, err := s.Queue(ctx, name)
		if err != nil && ctx.Err() != nil && len(took) > 0 && time.Since(began) <= slices.Max(took) {
			break // this call was cut off, and was not slower than others: the store is slow, and not silent
		}
		if err != nil {
			f.Level, f.Found = store.Fail, fmt.Sprintf("call %d of %d failed: %s", len(took)+1, calls, text(err))
			f.Why = "a client whose calls fail cannot renew its leases"
			f.Fix = fixFor(scheme(s.Abilities().Store), err)
			return f
		}
		took = append(took, time.Since(began))
	}
	slices.Sort(took)
	p50, p99 := took[len(took)/2], took[len(took)*99/100]
	f.Found = fmt.Sprintf("p50 %v, p99 %v of %d calls", rounded(p50), rounded(p99), len(took))
	if p99 > slow {
		f.Level = store.Warn
		f.Why = "a lease is renewed every third of its ttl; calls this slow delay every waiter as much, and leases " +
			"of a short ttl are lost"
		f.Fix = fmt.Sprintf("put the store closer to its clients, or give it less work; keep ttl above %v",
			rounded(20*p99))
	}
	return f
}

// rounded rounds a duration to what can be read.
func rounded(d time.Duration) time.Duration {
	switch {
	case d.Abs() < time.Millisecond:
		return d.Round(time.Microsecond)
	case d.Abs() < time.Second:
		return d.Round(100 * time.Microsecond)
	}
	return d.Round(10 * time.Millisecond)
}
