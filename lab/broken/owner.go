package broken

import (
	"context"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/lab/check"
	"github.com/holdfast-go/holdfast/lab/history"
)

const ownedSchema = `CREATE TABLE IF NOT EXISTS owned (name TEXT PRIMARY KEY, owner TEXT NOT NULL,
	count INTEGER NOT NULL)`

// A named lock can be entered again by its owner, which is a thread, by name.
type named struct{ file }

func (l named) tryLock(ctx context.Context) (bool, error) {
	return changed(ctx, l.DB, `INSERT INTO owned VALUES (?, ?, 1)
		ON CONFLICT (name) DO UPDATE SET count = count + 1 WHERE owner = excluded.owner`, l.Lock, l.Thread)
}

func (l named) unlock(ctx context.Context) error {
	_, err := l.ExecContext(ctx, `UPDATE owned SET count = count - 1 WHERE name = ? AND owner = ?`, l.Lock, l.Thread)
	if err == nil {
		_, err = l.ExecContext(ctx, `DELETE FROM owned WHERE name = ? AND count = 0`, l.Lock)
	}
	return err
}

var threadName = &Rung{
	Number: 14, Name: "thread-name",
	What:    "a re-entrant lock whose owner is the name of a thread",
	Seen:    "locks that were moved from one process to many, and kept their idea of an owner",
	Promise: oneHolder, Rule: check.Exclusion,
	Story: "Two processes each have a thread of the same name. The second one \"enters again\".",
	Prevents: "An owner is an outermost Lock, and whoever holds its lease's context: it is passed on by the program, " +
		"and not guessed from a name. Another process has another.",
	Store: "sqlite, with Reentrant", Budget: 20 * time.Second,
	broken:   overFile(ownedSchema, func(f file) lock { return named{f} }),
	holdfast: holdfastFile, options: []holdfast.Option{holdfast.WithReentrance()},
	schedule: func(s *stage) {
		s.onFile()
		called := func(p *part) { p.Thread = "worker-1" }
		a, b := s.enterProcess(called), s.enter("B", called)
		a.locks()
		b.triesWrongly(s.millis(100, 200))
	},
}

var foreignUnlock = &Rung{
	Number: 14, Name: "foreign-unlock",
	What:    "a lock that anybody can release, by its name",
	Seen:    "try { lock } finally { unlock }, where the lock was never taken; scripts that \"clean up\" first",
	Promise: oneHolder, Rule: check.Exclusion,
	Story: "A holds the lock. B gives up waiting, and its clean-up releases the lock all the same. C gets in " +
		"beside A.",
	Prevents: "There is nothing to call: only a lease can be unlocked, and only a Lock that succeeded returns one. " +
		"An operator has Break, which names the claim by its token.",
	Store: "sqlite", Budget: 20 * time.Second,
	broken:   openRow,
	holdfast: holdfastFile,
	schedule: func(s *stage) {
		s.onFile()
		a, b, c := s.enterProcess(), s.enter("B"), s.enter("C")
		a.locks()
		w := b.asks()
		s.must(pause(s.ctx, s.millis(50, 150)))
		w.givesUp()
		if s.holdfast {
			b.says("has no lease, and so nothing that it could unlock")
		} else {
			b.unlocks()
		}
		c.triesWrongly(s.millis(100, 200))
	},
}

const sharedSchema = `CREATE TABLE IF NOT EXISTS shared (name TEXT PRIMARY KEY, readers INTEGER NOT NULL,
	writer BOOLEAN NOT NULL)`

// A preferred lock lets readers in whenever no writer holds it, and a writer when nobody does.
type preferred struct{ file }

func (l preferred) tryLock(ctx context.Context) (bool, error) {
	if l.Kind == history.Shared {
		return changed(ctx, l.DB, `UPDATE shared SET readers = readers + 1 WHERE name = ? AND NOT writer`, l.Lock)
	}
	return changed(ctx, l.DB, `UPDATE shared SET writer = TRUE WHERE name = ? AND readers = 0 AND NOT writer`, l.Lock)
}

func (l preferred) unlock(ctx context.Context) error {
	change := `UPDATE shared SET writer = FALSE WHERE name = ?`
	if l.Kind == history.Shared {
		change = `UPDATE shared SET readers = readers - 1 WHERE name = ?`
	}
	_, err := l.ExecContext(ctx, change, l.Lock)
	return err
}

var starvedWriter = &Rung{
	Number: 14, Name: "starved-writer",
	What:    "a read-write lock that lets a reader in whenever no writer holds it",
	Seen:    "read-write locks that count readers",
	Promise: "whoever waits gets in within a bound",
	Story:   "Two readers relieve each other: each comes before the other leaves. A writer waits.",
	Rule:    check.LongWait,
	Prevents: "Readers and writers stand in one line. A writer that waits stops the readers behind it, and is next " +
		"when those before it have left.",
	Store: "sqlite", Budget: 20 * time.Second,
	broken: func(ctx context.Context, p *part) (lock, error) {
		f, err := openFile(ctx, p, sharedSchema)
		if err == nil {
			_, err = f.ExecContext(ctx, `INSERT INTO shared VALUES (?, 0, FALSE) ON CONFLICT DO NOTHING`, p.Lock)
		}
		return preferred{f}, err
	},
	holdfast: holdfastFile,
	schedule: func(s *stage) {
		s.onFile()
		s.boundsWaits(3 * time.Second)
		reads := func(p *part) { p.Kind = history.Shared }
		inside, next, writer := s.enter("R1", reads), s.enter("R2", reads), s.enter("W")
		inside.locks()
		w := writer.asks()
		w.inLine(1)
		inside.quiet, next.quiet = true, true
		shifts := 0
		for began := time.Now(); time.Since(began) < s.bound+100*time.Millisecond && !w.over(); shifts++ {
			turn := next.asks()
			if turn.inLine(2); s.holdfast {
				inside.unlocks() // the writer is before the next reader
				w.granted()
				writer.unlocks()
				turn.granted()
			} else {
				turn.granted()
				inside.unlocks()
			}
			inside, next = next, inside
			s.must(pause(s.ctx, s.millis(10, 40)))
		}
		s.tell("", "the readers have relieved each other; shifts: %d", shifts)
		if !w.over() {
			w.givesUp()
		}
		inside.unlocks()
	},
}
