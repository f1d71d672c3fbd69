package top

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/printable"
)

// Once writes a table of the queues as they are now.
func Once(ctx context.Context, w io.Writer, c Config) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for batch, err := range c.Watch(ctx, c.Prefix) {
		if err != nil {
			return err
		}
		m := newModel(c.Store, c.Prefix)
		m.receive(batch, nil, time.Now())
		return m.write(w)
	}
	return errors.Join(errEnded, ctx.Err())
}

// write writes all rows.
func (m *model) write(w io.Writer) error {
	rows := m.visible()
	if len(rows) == 0 {
		return nil
	}
	table := []string{"NAME\tMODE\tHOLDER\tHELD\tLEFT\tTOKEN\tWAITERS\tLONGEST\n"}
	for _, r := range rows {
		table = append(table, strings.Join(m.cells(r), "\t")+"\n")
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	if _, err := io.WriteString(t, strings.Join(table, "")); err != nil {
		return err
	}
	return t.Flush()
}

// cells are the columns of a row.
func (m *model) cells(r row) []string {
	first := r.Entries[0]
	held, left, token, longest := "-", "-", "-", "-"
	if first.Held {
		held, left, token = short(m.age(first)), short(m.left(r, first)), first.Token.String()
	}
	if len(r.Waiters()) > 0 {
		longest = short(m.longest(r))
	}
	waiters := fmt.Sprint(len(r.Waiters()))
	return []string{printable.Line(r.Name), mode(r.Queue), holder(r.Queue), held, left, token, waiters, longest}
}

// Plain writes a line for each queue, and one for each that has changed since, at most once in an interval. A renewal
// is not a change. It ends with ctx, or when Watch does.
func Plain(ctx context.Context, w io.Writer, c Config) error {
	m := newModel(c.Store, c.Prefix)
	written := map[string]string{} // what was written of a queue, without times
	changed := map[string]bool{}
	reports := c.watch(ctx)
	tick := time.NewTicker(c.Interval)
	defer tick.Stop()
	var last error
	for first := true; ; {
		select {
		case r, ok := <-reports:
			if !ok {
				if ctx.Err() != nil {
					return nil
				}
				return errors.Join(errEnded, last)
			}
			wasFailing := m.failure != nil
			m.receive(r.batch, r.err, time.Now())
			last = r.err
			if err := m.writeStatus(w, r.err, wasFailing); err != nil {
				return err
			}
			for _, q := range r.batch {
				changed[q.Name] = true
			}
			if !first {
				continue
			}
			first = false
		case <-tick.C:
		}
		m.now = time.Now()
		if err := m.writeChanged(w, changed, written); err != nil {
			return err
		}
		clear(changed)
	}
}

// writeStatus writes that the store has failed, or responds again.
func (m *model) writeStatus(w io.Writer, failed error, wasFailing bool) error {
	line := m.store + " responds again"
	if failed != nil {
		line = strings.TrimPrefix(failed.Error(), "holdfast: ")
	} else if !wasFailing {
		return nil
	}
	_, err := fmt.Fprintf(w, "%s  %s\n", clock(m.now), printable.Line(line))
	return err
}

// writeChanged writes the queues that differ from what was written of them.
func (m *model) writeChanged(w io.Writer, changed map[string]bool, written map[string]string) error {
	for _, name := range slices.Sorted(maps.Keys(changed)) {
		r, used := m.rows[name]
		now := ""
		if used {
			now = fingerprint(r.Queue)
		}
		if was, known := written[name]; known && was == now || !known && !used {
			continue
		}
		line := printable.Line(name) + "  free"
		if written[name] = now; used {
			line = strings.Join(m.cells(r), "  ")
		} else {
			delete(written, name)
		}
		if _, err := fmt.Fprintf(w, "%s  %s\n", clock(m.now), line); err != nil {
			return err
		}
	}
	return nil
}

// fingerprint returns what makes a queue worth another line if it changes: its holders and waiters.
func fingerprint(q holdfast.Queue) string {
	var b strings.Builder
	for _, e := range q.Entries {
		fmt.Fprintf(&b, "%v %v %d,", e.Token, e.Held, e.Units)
	}
	return b.String()
}

func clock(t time.Time) string { return t.Format(time.TimeOnly) }
