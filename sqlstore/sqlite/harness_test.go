package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"io"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/testkit"
	"github.com/holdfast-go/holdfast/sqlstore"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/storetest"
)

func TestMain(m *testing.M) {
	if runChild() {
		return
	}
	testkit.Main(m)
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestContract(t *testing.T) {
	storetest.Run(t, newHarness)
}

// harness is a file, and a hand on it.
type harness struct {
	path string

	mu    sync.Mutex // cases that do not restart it run in parallel
	shell *sql.DB    // an operator's, beside the stores
}

func newHarness(t testing.TB) storetest.Harness {
	h := &harness{path: filepath.Join(t.TempDir(), "locks.db")}
	t.Cleanup(func() {
		if h.shell != nil {
			h.shell.Close()
		}
	})
	return h
}

// operator is a connection as a database shell would have it.
func (h *harness) operator() *sql.DB {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.shell == nil {
		db, err := sql.Open("sqlite", source(h.path))
		if err != nil {
			panic(err)
		}
		_, _ = db.Exec("PRAGMA busy_timeout = 5000")
		db.SetMaxOpenConns(1)
		h.shell = db
	}
	return h.shell
}

func (h *harness) Open(t testing.TB, prefix string) (store.Store, storetest.Link) {
	e, err := newEngine(t.Context(), h.path, WithPrefix(prefix))
	check(t, err)
	pipe := storetest.NewPipe()
	return newStore(&piped{e, pipe}), pipe
}

func (h *harness) Advance(d time.Duration) { time.Sleep(d) }

// Restart replaces the file: by a copy of itself, as a restored backup would, or by nothing.
func (h *harness) Restart(keepData bool) error {
	if h.shell != nil {
		h.shell.Close()
		h.shell = nil
	}
	if keepData {
		if _, err := h.operator().Exec("PRAGMA wal_checkpoint(TRUNCATE)"); err != nil {
			return err
		}
		copied := h.path + ".copy"
		if err := copyFile(h.path, copied); err != nil {
			return err
		}
		h.shell.Close()
		h.shell = nil
		defer os.Rename(copied, h.path)
	}
	return errors.Join(os.Remove(h.path), remove(h.path+"-wal"), remove(h.path+"-shm"))
}

func remove(path string) error {
	if err := os.Remove(path); !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

func copyFile(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.Create(to)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}

func (h *harness) Erase(name string, id store.ID) error {
	_, err := h.operator().
		Exec("DELETE FROM holdfast_claims WHERE prefix = '' AND name = ? AND id = ?", name, id.String())
	return err
}

func (h *harness) Residue(name string) (n int, err error) {
	e, err := newEngine(context.Background(), h.path) // which sweeps
	if err != nil {
		return 0, err
	}
	if err := e.Close(); err != nil {
		return 0, err
	}
	err = h.operator().QueryRow(`SELECT (SELECT count(*) FROM holdfast_claims WHERE name = ?1) +
		(SELECT count(*) FROM holdfast_tombstones WHERE name = ?1)`, name).Scan(&n)
	return n, err
}

func (h *harness) PlantNewer(name string) error {
	e, err := newEngine(context.Background(), h.path)
	if err != nil {
		return err
	}
	defer e.Close()
	_, err = h.operator().
		Exec(`INSERT INTO holdfast_claims (prefix, name, seat, ticket, id, state, kind, units, capacity,
		deadline, ttl, grace, since, turn, inbox, waits, details, format)
		VALUES ('', ?, 7, 7, 'a new form of id', 'waiting', 'a new kind', 1, 1, 0, 0, 0, 0, 0, '', '', '{}', ?)`,
			name, format+1)
	return err
}

// piped puts a link between a store and its engine.
type piped struct {
	*engine
	pipe *storetest.Pipe
}

func over[T any](ctx context.Context, p *piped, do func(context.Context) (T, error)) (T, error) {
	answer := new(struct {
		value T
		err   error
	})
	if err := p.pipe.Call(ctx, func() { answer.value, answer.err = do(context.WithoutCancel(ctx)) }); err != nil {
		var none T
		if ctx.Err() == nil {
			err = p.fault(err)
		}
		return none, err
	}
	return answer.value, answer.err
}

func (p *piped) Join(ctx context.Context, c *store.Claim) (sqlstore.Result, error) {
	return over(ctx, p, func(ctx context.Context) (sqlstore.Result, error) { return p.engine.Join(ctx, c) })
}

func (p *piped) Keep(ctx context.Context, cs []store.Claim) ([]sqlstore.Result, error) {
	cs = append([]store.Claim(nil), cs...)
	return over(ctx, p, func(ctx context.Context) ([]sqlstore.Result, error) { return p.engine.Keep(ctx, cs) })
}

func (p *piped) Detach(ctx context.Context, c *store.Claim, as store.ID, d time.Duration) (sqlstore.Result, error) {
	return over(ctx, p, func(ctx context.Context) (sqlstore.Result, error) { return p.engine.Detach(ctx, c, as, d) })
}

func (p *piped) Attach(ctx context.Context, c *store.Claim, from store.ID) (sqlstore.Result, error) {
	return over(ctx, p, func(ctx context.Context) (sqlstore.Result, error) { return p.engine.Attach(ctx, c, from) })
}

func (p *piped) Leave(ctx context.Context, c *store.Claim) error {
	_, err := over(ctx, p, func(ctx context.Context) (struct{}, error) { return struct{}{}, p.engine.Leave(ctx, c) })
	return err
}

func (p *piped) Break(ctx context.Context, name string, ticket uint64) error {
	_, err := over(ctx, p,
		func(ctx context.Context) (struct{}, error) { return struct{}{}, p.engine.Break(ctx, name, ticket) })
	return err
}

func (p *piped) Queue(ctx context.Context, name string) (store.Queue, error) {
	return over(ctx, p, func(ctx context.Context) (store.Queue, error) { return p.engine.Queue(ctx, name) })
}

func (p *piped) Names(ctx context.Context, prefix string) ([]string, error) {
	return over(ctx, p, func(ctx context.Context) ([]string, error) { return p.engine.Names(ctx, prefix) })
}

func (p *piped) ReadPage(ctx context.Context, prefix, after string, most int) ([]sqlstore.Listed, error) {
	return over(ctx, p, func(ctx context.Context) ([]sqlstore.Listed, error) {
		return p.engine.ReadPage(ctx, prefix, after, most)
	})
}

func (p *piped) Version(ctx context.Context) (sqlstore.Version, error) {
	return over(ctx, p, p.engine.Version)
}

func (p *piped) Poll(ctx context.Context, waiting []store.Claim) ([]sqlstore.Result, error) {
	return over(ctx, p, func(ctx context.Context) ([]sqlstore.Result, error) { return p.engine.Poll(ctx, waiting) })
}

func (p *piped) Changed(ctx context.Context) (bool, error) {
	return over(ctx, p, p.engine.Changed)
}

func (p *piped) Sweep(ctx context.Context) error {
	_, err := over(ctx, p, func(ctx context.Context) (struct{}, error) { return struct{}{}, p.engine.Sweep(ctx) })
	return err
}

func (p *piped) Notify(fn func(store.ID, store.Status)) {
	p.engine.Notify(func(id store.ID, s store.Status) { p.pipe.Push(func() { fn(id, s) }) })
}
