package routines

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"io"
	"slices"
	"strconv"
	"time"

	"github.com/holdfast-go/holdfast/sqlstore"
	"github.com/holdfast-go/holdfast/store"
)

// slotOf returns the slot of a resource. All clients of a database must compute the same.
func slotOf(prefix, name string) int {
	h := fnv.New32a()
	_, _ = io.WriteString(h, prefix)
	_, _ = h.Write([]byte{0})
	_, _ = io.WriteString(h, name)
	return int(h.Sum32() % Slots)
}

// Join implements sqlstore.Engine.
func (e *Engine) Join(ctx context.Context, c *store.Claim) (sqlstore.Result, error) {
	waits, err := waitsOf(c)
	if err != nil {
		return sqlstore.Result{}, err
	}
	details, err := json.Marshal(c.Owner)
	if err != nil {
		return sqlstore.Result{}, err
	}
	args := []any{
		e.Format, slotOf(e.Prefix, c.Name), e.Prefix, c.Name, c.ID.String(), c.Kind.String(), c.Units, c.Limit,
		c.TTL.Microseconds(), c.Grace.Microseconds(), c.Try, c.AnyLimit, int64(min(c.Floor, store.MaxTicket)),
		int(c.Turn), e.inbox(), waits, string(details),
	}
	a := e.newResults(1)
	return a.first(e.query(ctx, e.Text.Join, args, a.begin, a.scan))
}

// Leave implements sqlstore.Engine.
func (e *Engine) Leave(ctx context.Context, c *store.Claim) error {
	_, err := e.queryOne(ctx, e.Text.Leave, e.Format, slotOf(e.Prefix, c.Name), e.Prefix, c.Name, c.ID.String(),
		int64(c.Ticket), c.TTL.Microseconds())
	return err
}

// Detach implements sqlstore.Engine. No client listens at the inbox of a detached claim.
func (e *Engine) Detach(ctx context.Context, c *store.Claim, as store.ID, d time.Duration) (sqlstore.Result, error) {
	return e.transfer(ctx, c.Name, c.ID, as, d, 0, "", "", nil, nil)
}

// Attach implements sqlstore.Engine.
func (e *Engine) Attach(ctx context.Context, c *store.Claim, from store.ID) (sqlstore.Result, error) {
	waits, err := waitsOf(c)
	if err != nil {
		return sqlstore.Result{}, err
	}
	details, err := json.Marshal(c.Owner)
	if err != nil {
		return sqlstore.Result{}, err
	}
	return e.transfer(ctx, c.Name, from, c.ID, c.TTL, c.Grace, e.inbox(), waits, int(c.Turn), string(details))
}

// transfer gives a held claim another ID and a new life. Turn and details are nil if those of the claim stay.
func (e *Engine) transfer(ctx context.Context, name string, from, to store.ID, ttl, grace time.Duration,
	inbox, waits string, turn, details any) (sqlstore.Result, error) {
	return e.queryOne(ctx, e.Text.Transfer, e.Format, slotOf(e.Prefix, name), e.Prefix, name, from.String(),
		to.String(), ttl.Microseconds(), grace.Microseconds(), inbox, waits, turn, details)
}

// Break implements sqlstore.Engine.
func (e *Engine) Break(ctx context.Context, name string, ticket uint64) error {
	_, err := e.queryOne(ctx, e.Text.Break, e.Format, slotOf(e.Prefix, name), e.Prefix, name,
		int64(min(ticket, store.MaxTicket)))
	return err
}

// tidy removes expired claims from a queue and grants the claims that then fit.
func (e *Engine) tidy(ctx context.Context, slot int, prefix, name string) error {
	_, err := e.queryOne(ctx, e.Text.Tend, e.Format, slot, prefix, name)
	return err
}

// queryOne makes a call that has one result.
func (e *Engine) queryOne(ctx context.Context, text string, args ...any) (sqlstore.Result, error) {
	a := e.newResults(1)
	return a.first(e.query(ctx, text, args, a.begin, a.scan))
}

// A claimRequest is a claim in a request of Keep or Poll, in JSON.
type claimRequest struct {
	I      int    `json:"i"`
	Slot   int    `json:"slot"`
	Name   string `json:"name"`
	ID     string `json:"id"`
	Ticket uint64 `json:"ticket"`
	Units  int32  `json:"units"`
	TTL    int64  `json:"ttl"`
	Grace  int64  `json:"grace"`
	Turn   uint8  `json:"turn"`
	Waits  string `json:"waits"`
	Owner  int    `json:"owner"` // its index in the list of owners
}

// Keep implements sqlstore.Engine.
func (e *Engine) Keep(ctx context.Context, cs []store.Claim) ([]sqlstore.Result, error) {
	a, encode := e.newResults(len(cs)), e.encodeEach
	if e.Grouped {
		a.kept, encode = cs, e.encodeGroups
	}
	claims, rest, err := encode(cs)
	if err != nil {
		return nil, err
	}
	err = a.check(e.query(ctx, e.Text.Keep, []any{e.Format, e.Prefix, e.inbox(), claims, rest}, a.begin, a.scan))
	return a.list, err
}

// encodeEach returns claims in JSON, and their owners, of which most claims have the same.
func (e *Engine) encodeEach(cs []store.Claim) (claims, owners string, err error) {
	request := make([]claimRequest, len(cs))
	texts := []string{}
	indexes := map[*store.Owner]int{}
	for i := range cs {
		c := &cs[i]
		index, known := indexes[c.Owner]
		if !known {
			details, err := json.Marshal(c.Owner)
			if err != nil {
				return "", "", err
			}
			index = len(texts)
			indexes[c.Owner] = index
			texts = append(texts, string(details))
		}
		waits, err := waitsOf(c)
		if err != nil {
			return "", "", err
		}
		request[i] = claimRequest{
			I: i, Slot: slotOf(e.Prefix, c.Name), Name: c.Name, ID: c.ID.String(), Ticket: c.Ticket, Units: c.Units,
			TTL: c.TTL.Microseconds(), Grace: c.Grace.Microseconds(), Turn: c.Turn, Waits: waits, Owner: index,
		}
	}
	return marshalBoth(request, texts)
}

// A common is what the claims of a group have in common, in JSON.
type common struct {
	Units int32  `json:"units"`
	TTL   int64  `json:"ttl"`
	Grace int64  `json:"grace"`
	Turn  uint8  `json:"turn"`
	Waits string `json:"waits"`
	Owner string `json:"owner"`
}

// A group is claims in a request of Keep, in JSON.
type group struct {
	common
	Claims [][4]any `json:"claims"` // index, name, ID and ticket
}

// encodeGroups returns claims in JSON, grouped by what they have in common, which is mostly all but their names, and
// the slot of each.
func (e *Engine) encodeGroups(cs []store.Claim) (claims, slots string, err error) {
	groups := []*group{}
	known := map[common]*group{}
	owners := map[*store.Owner]string{}
	numbers := make([]int, len(cs))
	for i := range cs {
		c := &cs[i]
		if _, ok := owners[c.Owner]; !ok {
			details, err := json.Marshal(c.Owner)
			if err != nil {
				return "", "", err
			}
			owners[c.Owner] = string(details)
		}
		waits, err := waitsOf(c)
		if err != nil {
			return "", "", err
		}
		key := common{
			Units: c.Units, TTL: c.TTL.Microseconds(), Grace: c.Grace.Microseconds(), Turn: c.Turn, Waits: waits,
			Owner: owners[c.Owner],
		}
		g := known[key]
		if g == nil {
			g = &group{common: key}
			known[key] = g
			groups = append(groups, g)
		}
		g.Claims = append(g.Claims, [4]any{i, c.Name, c.ID.String(), c.Ticket})
		numbers[i] = slotOf(e.Prefix, c.Name)
	}
	return marshalBoth(groups, numbers)
}

func marshalBoth(a, b any) (string, string, error) {
	first, err := json.Marshal(a)
	if err != nil {
		return "", "", err
	}
	second, err := json.Marshal(b)
	return string(first), string(second), err
}

// waitsOf returns the JSON of what the owner of a claim waits for, or "".
func waitsOf(c *store.Claim) (string, error) {
	if len(c.Waits) == 0 {
		return "", nil
	}
	text, err := json.Marshal(c.Waits)
	return string(text), err
}

// Poll implements sqlstore.Engine. It reads. Every thoroughEvery it also tidies the queues that need it.
func (e *Engine) Poll(ctx context.Context, waiting []store.Claim) ([]sqlstore.Result, error) {
	request := make([]claimRequest, len(waiting))
	for i := range waiting {
		c := &waiting[i]
		request[i] = claimRequest{I: i, Name: c.Name, ID: c.ID.String(), Ticket: c.Ticket}
	}
	claims, err := json.Marshal(request)
	if err != nil {
		return nil, err
	}
	thorough := e.isThorough()
	answers, untidy, err := e.queryAll(ctx, len(waiting), e.Text.Look, e.Format, e.Prefix, string(claims), thorough)
	if err != nil || len(untidy) == 0 {
		return answers, err
	}
	tidied := map[string]bool{}
	for _, i := range untidy {
		if name := waiting[i].Name; !tidied[name] {
			tidied[name] = true
			_ = e.tidy(ctx, slotOf(e.Prefix, name), e.Prefix, name) // the next thorough poll finds it again
		}
	}
	if again, _, err := e.queryAll(ctx, len(waiting), e.Text.Look, e.Format, e.Prefix, string(claims),
		false); err == nil {
		return again, nil
	}
	return answers, nil // what was read first is still true
}

// isThorough reports whether it is time for a thorough poll.
func (e *Engine) isThorough() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	now := time.Now()
	if now.Sub(e.lastThorough) < thoroughEvery {
		return false
	}
	e.lastThorough = now
	return true
}

// Queue implements sqlstore.Engine.
func (e *Engine) Queue(ctx context.Context, name string) (store.Queue, error) {
	queue := store.Queue{Name: name}
	err := e.tidy(ctx, slotOf(e.Prefix, name), e.Prefix, name)
	if err != nil {
		return queue, err
	}
	queue.Entries, err = readAll(ctx, e, e.Text.Queue, func(rows *sql.Rows) (store.Entry, error) {
		var text string
		if err := rows.Scan(&text); err != nil {
			return store.Entry{}, err
		}
		return readEntry(name, text)
	}, e.Prefix, name)
	return queue, err
}

// Names implements sqlstore.Engine.
func (e *Engine) Names(ctx context.Context, prefix string) ([]string, error) {
	return readAll(ctx, e, e.Text.Names, func(rows *sql.Rows) (name string, err error) {
		err = rows.Scan(&name)
		return name, err
	}, e.Prefix, prefix)
}

// ReadPage implements sqlstore.PageReader.
func (e *Engine) ReadPage(ctx context.Context, prefix, after string, most int) ([]sqlstore.Listed, error) {
	return readAll(ctx, e, e.Text.Page, func(rows *sql.Rows) (c sqlstore.Listed, err error) {
		var name, text string
		var format int
		if err := rows.Scan(&name, &format, &text); err != nil {
			return c, err
		}
		if c.Newer = format > e.Format; !c.Newer {
			c.Entry, err = readEntry(name, text)
		}
		c.Name = name
		return c, err
	}, e.Prefix, prefix, after, most)
}

// Sweep implements sqlstore.Engine. Of all clients, one sweeps per minute.
func (e *Engine) Sweep(ctx context.Context) error {
	type resource struct {
		slot         int
		prefix, name string
	}
	queues, err := readAll(ctx, e, e.Text.Expired, func(rows *sql.Rows) (r resource, err error) {
		err = rows.Scan(&r.slot, &r.prefix, &r.name)
		return r, err
	}, e.Format)
	for i := 0; ctx.Err() == nil && i < len(queues); i++ {
		err = cmp.Or(err, e.tidy(ctx, queues[i].slot, queues[i].prefix, queues[i].name))
	}
	return err
}

// readAll runs a query and returns what read makes of its rows.
func readAll[T any](ctx context.Context, e *Engine, text string, read func(*sql.Rows) (T, error), args ...any) (
	all []T, err error) {
	begin := func() { all = nil }
	err = e.query(ctx, text, args, begin, func(rows *sql.Rows) error {
		one, err := read(rows)
		all = append(all, one)
		return err
	})
	return all, err
}

// queryAll makes a call that has n results. Untidy are the indexes of claims whose queues need to be tidied.
func (e *Engine) queryAll(ctx context.Context, n int, text string,
	args ...any) (answers []sqlstore.Result, untidy []int, err error) {
	a := e.newResults(n)
	err = a.check(e.query(ctx, text, args, a.begin, a.scan))
	return a.list, a.untidy, err
}

// results collects the results of one call, as they arrive.
type results struct {
	engine  *Engine
	kept    []store.Claim // those of the request if one result may stand for all of them, or nil
	list    []sqlstore.Result
	arrived []bool
	untidy  []int // the indexes of claims whose queues need to be tidied
}

func (e *Engine) newResults(n int) *results {
	return &results{engine: e, list: make([]sqlstore.Result, n)}
}

// begin discards the results of a call that is repeated.
func (a *results) begin() { a.arrived, a.untidy = make([]bool, len(a.list)), nil }

// scan reads one result.
func (a *results) scan(rows *sql.Rows) error {
	var i int
	var state, problem, blocker string
	var answer sqlstore.Result
	var opens int64
	if err := rows.Scan(&i, &state, &answer.Ticket, &answer.Ahead, &opens, &problem, &blocker); err != nil {
		return err
	}
	if i == -1 && a.kept != nil && state == store.Held.String() && problem == "" {
		return a.allHeld()
	}
	if i < 0 || i >= len(a.list) || a.arrived[i] {
		return fmt.Errorf("the database returned an unexpected or second result for claim %d of %d", i, len(a.list))
	}
	a.arrived[i] = true
	answer.State, answer.RecheckIn = stateOf(state), micros(opens)
	if answer.State == store.Gone && state != "" {
		return fmt.Errorf("the database returned the state %.40q, which this program does not know", state)
	}
	if problem == "untidy" {
		a.untidy, problem = append(a.untidy, i), ""
	}
	err := a.engine.complete(&answer, problem, blocker)
	a.list[i] = answer
	return err
}

// allHeld is the result that all claims are held, with the tickets that their client knows.
func (a *results) allHeld() error {
	for i := range a.kept {
		if a.arrived[i] || a.kept[i].Ticket == 0 {
			return fmt.Errorf("the database returned that all claims are held, and does not know claim %d", i)
		}
		a.arrived[i] = true
		a.list[i] = sqlstore.Result{State: store.Held, Ticket: a.kept[i].Ticket, Ahead: -1}
	}
	return nil
}

// check returns the error of the call, or an error that names the claim whose result is missing.
func (a *results) check(err error) error {
	if i := slices.Index(a.arrived, false); err == nil && i >= 0 {
		err = fmt.Errorf("the database returned no result for claim %d of %d", i, len(a.list))
	}
	return err
}

// first returns the result of a call that has one.
func (a *results) first(err error) (sqlstore.Result, error) {
	if err := a.check(err); err != nil {
		return sqlstore.Result{}, err
	}
	return a.list[0], a.list[0].Err
}

// complete adds the error of a result, or the claim that blocks it.
func (e *Engine) complete(a *sqlstore.Result, problem, blocker string) error {
	switch problem {
	case "":
		if blocker == "" {
			return nil
		}
		holder, err := readEntry("", blocker)
		a.Holder = &holder
		return err
	case "format":
		a.Err = store.ErrFormat
	case "floor":
		a.Err = store.ErrFloor
	case "mark":
		a.Err = store.BadMark("the table of slots in "+e.Frame.Name, strconv.FormatUint(a.Ticket, 10))
	case "not held":
		a.Err = store.ErrNotHeld
	case "mismatch":
		head, err := readEntry("", blocker)
		a.Err = &store.MismatchError{InUse: head.Demand}
		return err
	default:
		return fmt.Errorf("the database returned the problem %.40q, which this program does not know", problem)
	}
	return nil
}

// readEntry parses a claim from the JSON of the routines.
func readEntry(name, text string) (p store.Entry, err error) {
	var r struct {
		Ticket          uint64
		ID, State, Kind string
		Units, Capacity int32
		Left, TTL       int64
		Grace, Age      int64
		Turn            uint8
		Waits, Details  string
	}
	if err := json.Unmarshal([]byte(text), &r); err != nil {
		return p, err
	}
	p.Claim = store.Claim{
		Name: name, Demand: store.Demand{Kind: kindOf(r.Kind), Units: r.Units, Limit: r.Capacity}, Ticket: r.Ticket,
		Turn: r.Turn,
		TTL:  micros(r.TTL), Grace: micros(r.Grace), Owner: &store.Owner{},
	}
	p.State, p.Left, p.Since = stateOf(r.State), micros(r.Left), time.Now().Add(-micros(r.Age))
	if r.ID != "" {
		err = p.ID.UnmarshalText([]byte(r.ID))
	}
	if r.Waits != "" {
		err = cmp.Or(err, json.Unmarshal([]byte(r.Waits), &p.Waits))
	}
	if r.Details != "" {
		err = cmp.Or(err, json.Unmarshal([]byte(r.Details), p.Owner))
	}
	return p, err
}

func micros(n int64) time.Duration { return time.Duration(n) * time.Microsecond }

func stateOf(word string) store.State {
	switch word {
	case store.Held.String():
		return store.Held
	case store.Waiting.String():
		return store.Waiting
	}
	return store.Gone
}

func kindOf(word string) store.Kind {
	for _, kind := range []store.Kind{store.Lock, store.Semaphore} {
		if kind.String() == word {
			return kind
		}
	}
	return 0
}
