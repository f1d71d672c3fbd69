package contend

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"time"
)

// A process is one of a crowd, as the crowd sees it.
type process struct {
	name    string
	cmd     *exec.Cmd
	in      io.WriteCloser
	heard   chan message // closed when it has ended, or says what cannot be understood
	through int64        // the last round that it was through; -1: it is not ready
	ended   bool         // it was waited for
}

// start starts this program again, as a process of a crowd.
func start(o *order) (*process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("holdfast: contend: %w", err)
	}
	p := &process{name: o.Process, cmd: exec.Command(self), heard: make(chan message), through: -1}
	// With the race detector it would linger at its end for a second.
	p.cmd.Env = append(os.Environ(), childEnv+"=1", "GORACE=atexit_sleep_ms=0 "+os.Getenv("GORACE"))
	p.cmd.Stderr = os.Stderr
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, p.failed(err)
	}
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		return nil, p.failed(err)
	}
	if err := p.cmd.Start(); err != nil {
		return nil, p.failed(err)
	}
	go func() {
		defer close(p.heard)
		for says := json.NewDecoder(out); ; {
			var m message
			if says.Decode(&m) != nil {
				return // how it has ended is for Wait to say
			}
			p.heard <- m
		}
	}()
	if err := json.NewEncoder(p.in).Encode(o); err != nil {
		return nil, errors.Join(p.failed(err), p.kill())
	}
	return p, nil
}

// begin tells it that a round begins.
func (p *process) begin(round int64) error {
	if p.ended {
		return nil
	}
	_, err := fmt.Fprintln(p.in, round)
	return p.failed(err)
}

// await waits until it is through a round.
func (p *process) await(ctx context.Context, round int64) error {
	for !p.ended && p.through < round {
		select {
		case m, ok := <-p.heard:
			if !ok {
				return p.failed(errors.New("it ended by itself"))
			}
			p.through = m.Through
		case <-ctx.Done():
			return p.failed(fmt.Errorf("not all of its goroutines have got a lock: %w", context.Cause(ctx)))
		}
	}
	return nil
}

// kill ends it at once.
func (p *process) kill() error {
	if p.ended {
		return nil
	}
	err := p.cmd.Process.Kill()
	if errors.Is(err, os.ErrProcessDone) {
		err = nil
	}
	p.stop()
	_, _ = p.end() // it was killed, so it does not end well
	return p.failed(err)
}

// stop makes it release its locks and end.
func (p *process) stop() { _ = p.in.Close() }

// end waits for its end and gives its report.
func (p *process) end() (report *Report, err error) {
	for m := range p.heard {
		report = m.Report
	}
	err = p.cmd.Wait()
	p.ended = true
	if report == nil {
		err = errors.Join(err, errors.New("it has not reported"))
	}
	return report, p.failed(err)
}

func (p *process) failed(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("holdfast: contend: %s: %w", p.name, err)
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

// A message is a line that a process writes.
type message struct {
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
