package history

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
)

// A History is what one or more processes recorded. Each part is sorted by beginning.
type History struct {
	Holds      []Hold
	Waits      []Wait
	Arrivals   []Arrival
	Operations []Operation
}

// LoadDir reads all histories in a folder and merges them.
func LoadDir(dir string) (*History, error) {
	paths, err := filepath.Glob(filepath.Join(dir, "*"+suffix))
	if err != nil {
		return nil, fmt.Errorf("holdfast: history: %w", err)
	}
	return Load(paths...)
}

// ReadDir reads the holds of all histories in a folder.
func ReadDir(dir string) ([]Hold, error) {
	h, err := LoadDir(dir)
	if err != nil {
		return nil, err
	}
	return h.Holds, nil
}

// Load reads histories and merges them. The last line of a file may be incomplete: its process may have been killed
// while it wrote that.
func Load(paths ...string) (*History, error) {
	merged := &History{}
	var first reader
	for _, path := range paths {
		r := reader{path: path}
		if err := r.read(); err != nil {
			return nil, fmt.Errorf("holdfast: history: %s, line %d: %w", path, r.line, err)
		}
		if r.header == nil {
			continue // killed before the first line was written
		}
		if first.header == nil {
			first = r
		}
		if a, b := first.header, r.header; a.Clock != b.Clock || a.Boot != b.Boot {
			return nil, fmt.Errorf("holdfast: history: %s goes by the %s of %q, and %s by the %s of %q: "+
				"their times cannot be compared", first.path, a.Clock, a.Boot, path, b.Clock, b.Boot)
		}
		merged.Holds = append(merged.Holds, r.Holds...)
		merged.Waits = append(merged.Waits, r.Waits...)
		merged.Arrivals = append(merged.Arrivals, r.Arrivals...)
		merged.Operations = append(merged.Operations, r.Operations...)
	}
	Sort(merged.Holds)
	slices.SortStableFunc(merged.Waits, func(a, b Wait) int { return cmp.Compare(a.Begin, b.Begin) })
	slices.SortStableFunc(merged.Arrivals, func(a, b Arrival) int { return cmp.Compare(a.Begin, b.Begin) })
	slices.SortStableFunc(merged.Operations, func(a, b Operation) int { return cmp.Compare(a.Begin, b.Begin) })
	return merged, nil
}

// A reader reads one file.
type reader struct {
	path   string
	line   int
	header *header
	History
	holding, waiting, calling map[uint64]int // the holds, waits and operations without an end, by id
}

// errMisfit is the error for an impossible event.
var errMisfit = errors.New("an event of unknown kind, or one that does not fit the events before it")

func (r *reader) read() error {
	text, err := os.ReadFile(r.path)
	if err != nil {
		return err
	}
	r.holding, r.waiting, r.calling = map[uint64]int{}, map[uint64]int{}, map[uint64]int{}
	for line := range bytes.Lines(text) {
		if !bytes.HasSuffix(line, []byte("\n")) {
			return nil // only the last line can be incomplete
		}
		r.line++
		if r.header == nil {
			err = r.readHeader(line)
		} else {
			err = r.readEvent(line)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (r *reader) readHeader(line []byte) error {
	h := &header{}
	if err := json.Unmarshal(line, h); err != nil {
		return err
	}
	if h.History < oldVersion || h.History > version {
		return fmt.Errorf("a history in format %d, and this program reads formats %d to %d",
			h.History, oldVersion, version)
	}
	r.header = h
	return nil
}

func (r *reader) readEvent(line []byte) error {
	var e event
	if err := json.Unmarshal(line, &e); err != nil {
		return err
	}
	switch e.Event {
	case began, still, ended:
		return r.readHold(&e)
	}
	if r.header.History == oldVersion {
		return errMisfit
	}
	switch e.Event {
	case asked, granted, gaveUp:
		return r.readWait(&e)
	case called, sent, done, refused:
		return r.readOperation(&e)
	case arrived:
		r.Arrivals = append(r.Arrivals, Arrival{
			Who: r.who(&e), Resource: e.Resource, Kind: e.Kind, Ticket: e.Ticket, Interval: Interval{e.At, e.Acked},
		})
		if e.Acked < e.At {
			return fmt.Errorf("a claim that is acknowledged %v before it is sent", e.At.Sub(e.Acked))
		}
		return nil
	}
	return errMisfit
}

func (r *reader) who(e *event) Who { return Who{r.header.Process, e.Client, e.Owner} }

func (r *reader) readHold(e *event) error {
	i, known := r.holding[e.ID]
	if known == (e.Event == began) {
		return errMisfit
	}
	if !known {
		i = len(r.Holds)
		r.holding[e.ID] = i
		r.Holds = append(r.Holds, Hold{
			Who: r.who(e), Resource: e.Resource, Kind: e.Kind, Units: e.Units, Limit: e.Limit, Token: e.Token,
			Interval: Interval{e.At, e.At}, Open: true,
		})
	}
	h := &r.Holds[i]
	h.Until = max(h.Until, e.Until)
	if h.End = max(h.End, e.At); e.Event == ended {
		h.End, h.Open, h.Lost = e.At, false, e.Seen
		delete(r.holding, e.ID)
	}
	return h.check()
}

func (r *reader) readWait(e *event) error {
	i, known := r.waiting[e.ID]
	if known == (e.Event == asked) {
		return errMisfit
	}
	if !known {
		r.waiting[e.ID] = len(r.Waits)
		r.Waits = append(r.Waits, Wait{
			Who: r.who(e), Resource: e.Resource, Kind: e.Kind, Units: e.Units, Limit: e.Limit,
			Interval: Interval{e.At, e.At}, Open: true,
		})
		return nil
	}
	w := &r.Waits[i]
	w.End, w.Open, w.Granted, w.Token = e.At, false, e.Event == granted, e.Token
	delete(r.waiting, e.ID)
	return w.check("a wait")
}

func (r *reader) readOperation(e *event) error {
	i, known := r.calling[e.ID]
	if known == (e.Event == called) {
		return errMisfit
	}
	if !known {
		r.calling[e.ID] = len(r.Operations)
		r.Operations = append(r.Operations, Operation{
			Who: r.who(e), Register: e.Resource, Token: e.Token, Update: e.Update, Interval: Interval{e.At, e.At},
		})
		return nil
	}
	o := &r.Operations[i]
	o.End = e.At
	switch e.Event {
	case sent:
		o.Old, o.New = e.Old, e.New
		return o.check("an operation")
	case done:
		o.Outcome = Acknowledged
		if !o.Update {
			o.Old = e.Old
		}
	case refused:
		o.Outcome = Refused
	}
	delete(r.calling, e.ID)
	return o.check("an operation")
}

func (v Interval) check(what string) error {
	if v.End < v.Begin {
		return fmt.Errorf("%s that ends %v before it begins", what, v.Begin.Sub(v.End))
	}
	return nil
}
