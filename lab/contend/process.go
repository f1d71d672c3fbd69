package contend

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/internal/child"
)

// A Process contends for locks, as the program that started it sees it. It reads an order, and the numbers of rounds as
// they begin, one in a line, and stops at the end of its input. It writes a [Message] in each line.
type Process struct {
	*child.Process
	Name string

	program string // in errors
	in      io.WriteCloser
	stderr  lastWords
	heard   chan struct{} // closed when all its output was read
	ended   bool          // it was killed, or End was called

	mu      sync.Mutex
	changed chan struct{} // closed and replaced at each message of the process
	through int64         // the last round that it was through; -1: it is not ready
	report  *Report
}

// StartProcess starts a process of this name and sends it its order, in JSON. Errors name the program, and have the end
// of what the process writes to stderr, unless cmd sends that elsewhere.
func StartProcess(program, name string, cmd *exec.Cmd, order any) (p *Process, err error) {
	p = &Process{
		Name: name, program: program, heard: make(chan struct{}), changed: make(chan struct{}), through: -1,
	}
	if cmd.Stderr == nil {
		cmd.Stderr = &p.stderr
	}
	// With the race detector it would linger at its end for a second.
	cmd.Env = append(cmd.Environ(), "GORACE=atexit_sleep_ms=0 "+os.Getenv("GORACE"))
	if p.in, err = cmd.StdinPipe(); err != nil {
		return nil, p.failed(err)
	}
	// Not StdoutPipe: the end of the process must not truncate its output.
	out, writes, err := os.Pipe()
	if err != nil {
		return nil, p.failed(errors.Join(err, p.in.Close()))
	}
	cmd.Stdout = writes
	p.Process, err = child.Start(cmd)
	if err := errors.Join(err, writes.Close()); err != nil {
		return nil, p.failed(errors.Join(err, p.in.Close(), out.Close()))
	}
	go p.listen(out)
	if err := json.NewEncoder(p.in).Encode(order); err != nil {
		return nil, errors.Join(p.failed(err), p.Kill())
	}
	return p, nil
}

// listen reads the messages of the process until it has ended.
func (p *Process) listen(out *os.File) {
	defer close(p.heard)
	defer out.Close() //nolint:errcheck // it was read to its end
	for says := json.NewDecoder(out); ; {
		var m Message
		if says.Decode(&m) != nil {
			return
		}
		p.mu.Lock()
		p.through = max(p.through, m.Through)
		if m.Report != nil {
			p.report = m.Report
		}
		close(p.changed)
		p.changed = make(chan struct{})
		p.mu.Unlock()
	}
}

// Begin tells it that a round begins.
func (p *Process) Begin(round int64) error {
	if p.ended {
		return nil
	}
	_, err := fmt.Fprintln(p.in, round)
	return p.failed(err)
}

// Await waits until it is through a round, or with 0 until it is ready. It does not wait for one that was killed.
func (p *Process) Await(ctx context.Context, round int64) error {
	for !p.ended {
		p.mu.Lock()
		through, changed := p.through, p.changed
		p.mu.Unlock()
		if through >= round {
			return nil
		}
		select {
		case <-changed:
		case <-p.heard:
			return p.failed(errors.New("it ended by itself"))
		case <-ctx.Done():
			return p.failed(fmt.Errorf("not all of its goroutines have got a lock: %w", context.Cause(ctx)))
		}
	}
	return nil
}

// Pause stops it, wherever it is, until Resume.
func (p *Process) Pause() error { return p.failed(child.Pause(p.Cmd.Process)) }

// Resume ends a Pause.
func (p *Process) Resume() error { return p.failed(child.Resume(p.Cmd.Process)) }

// Kill ends it at once.
func (p *Process) Kill() error {
	p.ended = true
	err := p.Process.Kill()
	_ = p.in.Close() // the process is gone
	<-p.heard
	return p.failed(err)
}

// Stop makes it release its locks and end.
func (p *Process) Stop() { _ = p.in.Close() }

// End waits for the end of a process after Stop, and returns its report. It kills the process when ctx is done. If that
// or Kill was done before, there is no report.
func (p *Process) End(ctx context.Context) (*Report, error) {
	if p.ended {
		return nil, nil
	}
	p.ended = true
	select {
	case <-p.heard:
		<-p.Done
	case <-ctx.Done():
		return nil, errors.Join(p.failed(fmt.Errorf("it has not ended: %w", context.Cause(ctx))), p.Kill())
	}
	if p.report == nil {
		return nil, p.failed(fmt.Errorf("it has not reported: %v", p.Cmd.ProcessState))
	}
	return p.report, nil
}

// failed adds the name of the process and the end of its stderr to an error.
func (p *Process) failed(err error) error {
	if err == nil {
		return nil
	}
	if last := strings.TrimSpace(p.stderr.String()); last != "" {
		err = fmt.Errorf("%w: %s", err, strings.TrimPrefix(last, "holdfast: "))
	}
	return fmt.Errorf("holdfast: %s: %s: %w", p.program, p.Name, err)
}

// lastWords keeps the end of what a process writes to stderr.
type lastWords struct {
	mu   sync.Mutex
	kept []byte
}

const maxLastWords = 4 << 10

// Write implements io.Writer.
func (l *lastWords) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.kept = append(l.kept, p...)
	if over := len(l.kept) - maxLastWords; over > 0 {
		l.kept = slices.Delete(l.kept, 0, over)
	}
	return len(p), nil
}

// String returns what is kept.
func (l *lastWords) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return string(l.kept)
}

// An order is the first line that a process reads. It is sent through a pipe rather than as an argument, where every
// user of the machine could read the store's password. Every line after it is the number of a round that begins. The
// process stops at the end of its input.
type order struct {
	Process    string        // its name
	URL        string        // of the store
	Dir        string        // for its history
	Goroutines int           // how many contend
	LongHold   time.Duration // for how long some hold at most
	Once       string        // what each takes once in a round; empty: see Plan
}

// A Message is a line that a process writes.
type Message struct {
	Through int64   // in this round or later, each goroutine has got a lock that it asked for; 0: it is ready
	Report  *Report `json:",omitempty"` // in the last message
}

// A Report has the results of a process's attempts.
type Report struct {
	Process  string
	Acquired int            // locks that were granted
	Lost     int            // of them, those that were lost before their release
	Faults   map[string]int // errors of the store that were retried, with their counts
	Wrong    map[string]int // other errors, which must not happen
}
