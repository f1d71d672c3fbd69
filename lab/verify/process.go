package verify

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/internal/child"
	"github.com/holdfast-go/holdfast/lab/contend"
	"github.com/holdfast-go/holdfast/lab/history"
)

// A process is a worker as the coordinator sees it.
type process struct {
	name string
	*child.Process
	in     io.WriteCloser
	stderr lastWords

	heard  chan struct{} // closed when all its output was read
	killed history.Instant

	mu      sync.Mutex
	changed chan struct{} // closed and replaced at each message of the process
	ready   bool
	through int64
	report  *contend.Report
}

// startProcess starts a worker and sends it its order.
func startProcess(command func() *exec.Cmd, o *order) (p *process, err error) {
	p = &process{name: o.Process, heard: make(chan struct{}), changed: make(chan struct{})}
	cmd := command()
	cmd.Stderr = &p.stderr
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
	if err := json.NewEncoder(p.in).Encode(o); err != nil {
		return nil, errors.Join(p.failed(err), p.kill())
	}
	return p, nil
}

// listen reads the messages of the process until it has ended.
func (p *process) listen(out *os.File) {
	defer close(p.heard)
	defer out.Close() //nolint:errcheck // it was read to its end
	for says := json.NewDecoder(out); ; {
		var m message
		if says.Decode(&m) != nil {
			return
		}
		p.mu.Lock()
		p.ready = p.ready || m.Ready
		p.through = max(p.through, m.Through)
		if m.Report != nil {
			p.report = m.Report
		}
		close(p.changed)
		p.changed = make(chan struct{})
		p.mu.Unlock()
	}
}

// await waits until the messages of the process satisfy a condition.
func (p *process) await(ctx context.Context, isSo func() bool) error {
	for {
		p.mu.Lock()
		so, changed := isSo(), p.changed
		p.mu.Unlock()
		if so {
			return nil
		}
		select {
		case <-changed:
		case <-p.heard:
			return p.failed(errors.New("it ended by itself"))
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (p *process) awaitReady(ctx context.Context) error {
	return p.await(ctx, func() bool { return p.ready })
}

func (p *process) awaitThrough(ctx context.Context, round int64) error {
	return p.await(ctx, func() bool { return p.through >= round })
}

// begin notifies it that a round begins.
func (p *process) begin(round int64) error {
	_, err := fmt.Fprintln(p.in, round)
	return p.failed(err)
}

func (p *process) pause() error  { return p.failed(child.Pause(p.Cmd.Process)) }
func (p *process) resume() error { return p.failed(child.Resume(p.Cmd.Process)) }

// kill ends it at once.
func (p *process) kill() error {
	p.killed = history.Now()
	err := p.Process.Kill()
	_ = p.in.Close() // the process is gone
	<-p.heard
	return p.failed(err)
}

// stop makes it release its locks and end, and kills it if it does not. It returns its report.
func (p *process) stop(patience time.Duration) (*contend.Report, error) {
	if p.killed != 0 {
		return nil, nil
	}
	_ = p.in.Close() // that is the signal
	select {
	case <-p.heard:
		<-p.Done
	case <-time.After(patience):
		return nil, errors.Join(p.failed(fmt.Errorf("it has not ended within %v", patience)), p.kill())
	}
	if p.report == nil {
		return nil, p.failed(errors.New("it has not reported"))
	}
	return p.report, nil
}

// failed adds the name of the process and the end of its stderr to an error.
func (p *process) failed(err error) error {
	if err == nil {
		return nil
	}
	if last := strings.TrimSpace(p.stderr.String()); last != "" {
		return fmt.Errorf("holdfast: verify: %s: %w: %s", p.name, err, strings.TrimPrefix(last, "holdfast: "))
	}
	return fmt.Errorf("holdfast: verify: %s: %w", p.name, err)
}

// lastWords keeps the end of what a process writes to stderr.
type lastWords struct {
	mu sync.Mutex
	bytes.Buffer
}

const maxLastWords = 4 << 10

// Write implements io.Writer.
func (l *lastWords) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	n, err := l.Buffer.Write(p)
	if over := l.Len() - maxLastWords; over > 0 {
		l.Next(over)
	}
	return n, err
}

// String returns what is kept.
func (l *lastWords) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.Buffer.String()
}
