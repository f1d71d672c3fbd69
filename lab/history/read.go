package history

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// ReadDir reads all histories in a folder and merges them. The holds are in order of their beginning.
func ReadDir(dir string) ([]Hold, error) {
	paths, err := filepath.Glob(filepath.Join(dir, "*"+suffix))
	if err != nil {
		return nil, fmt.Errorf("holdfast: history: %w", err)
	}
	return Read(paths...)
}

// Read reads histories and merges them. The holds are in order of their beginning. The last line of a file may be
// incomplete, if its process was killed while it wrote it.
func Read(paths ...string) ([]Hold, error) {
	var holds []Hold
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
		holds = append(holds, r.holds...)
	}
	Sort(holds)
	return holds, nil
}

// A reader reads one file.
type reader struct {
	path   string
	line   int
	header *header
	holds  []Hold
	open   map[uint64]int // which of them have not ended, by id
}

func (r *reader) read() error {
	text, err := os.ReadFile(r.path)
	if err != nil {
		return err
	}
	r.open = map[uint64]int{}
	for line := range bytes.Lines(text) {
		if !bytes.HasSuffix(line, []byte("\n")) {
			return nil // only the last line can be so
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
	if h.History != version {
		return fmt.Errorf("a history in format %d, and this program reads format %d", h.History, version)
	}
	r.header = h
	return nil
}

func (r *reader) readEvent(line []byte) error {
	var e event
	if err := json.Unmarshal(line, &e); err != nil {
		return err
	}
	i, known := r.open[e.ID]
	switch {
	case e.Event == began && !known:
		r.open[e.ID] = len(r.holds)
		r.holds = append(r.holds, Hold{
			Who:      Who{r.header.Process, e.Client, e.Owner},
			Resource: e.Resource, Kind: e.Kind, Units: e.Units, Limit: e.Limit, Token: e.Token,
			Interval: Interval{e.At, e.At}, Open: true,
		})
		return r.holds[len(r.holds)-1].check()
	case e.Event == still && known:
		r.holds[i].End = max(r.holds[i].End, e.At)
	case e.Event == ended && known:
		r.holds[i].End, r.holds[i].Open = e.At, false
		delete(r.open, e.ID)
	default:
		return errors.New("an event of no known kind, or that does not fit what came before")
	}
	return r.holds[i].check()
}
