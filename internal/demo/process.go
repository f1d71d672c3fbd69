package demo

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
	"time"

	"github.com/holdfast-go/holdfast/internal/child"
)

// farewell is how long a worker that has to end may take to release its lock.
const farewell = 2 * time.Second

// A process is a worker in the coordinator.
type process struct {
	number  int
	cmd     *exec.Cmd
	in      io.WriteCloser
	reports *json.Decoder // it returns io.EOF when the worker has ended
	stderr  bytes.Buffer
}

// startProcess starts a worker and sends it its order. When ctx is done, the worker's input is closed, and so the
// worker ends. If it does not, it is killed.
func startProcess(ctx context.Context, command func(context.Context) *exec.Cmd, o *order) (*process, error) {
	p := &process{number: o.Worker, cmd: command(ctx)}
	p.cmd.Stderr = &p.stderr
	p.cmd.SysProcAttr = child.Attributes()
	p.cmd.WaitDelay = farewell
	in, err := p.cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, errors.Join(err, in.Close())
	}
	p.in, p.reports = in, json.NewDecoder(out)
	p.cmd.Cancel = in.Close
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("a worker does not start: %w", err)
	}
	if err := json.NewEncoder(in).Encode(o); err != nil {
		return nil, p.end(err)
	}
	return p, nil
}

// goOn lets the worker continue.
func (p *process) goOn() error {
	_, err := io.WriteString(p.in, "\n")
	return err
}

// end ends the worker and waits until it has ended. why is the error that ended the coordinator's loop. If the worker
// has written to its stderr, that is returned instead, since it has the reason.
func (p *process) end(why error) error {
	p.in.Close() //nolint:errcheck // the worker may have ended
	p.resume()   //nolint:errcheck // likewise
	err := p.cmd.Wait()
	if errors.Is(why, io.EOF) {
		why = err // it ended by itself: nil if it succeeded
	}
	if why == nil {
		return nil
	}
	if last := strings.TrimSpace(p.stderr.String()); last != "" {
		return fmt.Errorf("worker %d: %s", p.number, strings.TrimPrefix(last, "holdfast: "))
	}
	return fmt.Errorf("worker %d: %w", p.number, why)
}

// kill ends the worker at once, in the middle of what it does.
func (p *process) kill() error {
	if err := p.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	return nil
}

// pause stops the worker until resume is called.
func (p *process) pause() error { return child.Pause(p.cmd.Process) }

func (p *process) resume() error { return child.Resume(p.cmd.Process) }

// An order is the first line that the coordinator sends to a worker. It is sent through the pipe and not as arguments,
// where all users of the machine could read the store's password. Every later line is empty, and lets the worker
// continue.
type order struct {
	Worker int
	Stock  string // the file with the stock
	Lock   lockKind
	Fence  bool          // the stock refuses stale tokens
	Store  string        // URL of Holdfast's store
	Name   string        // of the lock
	TTL    time.Duration // of the lease
}

// A lockKind is the kind of lock that a worker acquires before it sells.
type lockKind string

const (
	noLock       lockKind = "none"
	naiveLock    lockKind = "naive"
	holdfastLock lockKind = "holdfast"
)

// A report is a line that a worker sends to the coordinator.
type report struct {
	Kind reportKind
	Item int  // the number of the item: how many were left when the worker read the stock
	Hold span // while paying, it ends when the lease would expire; afterwards, when the hold ended
}

// A reportKind is what a worker does, or the outcome of its sale.
type reportKind string

const (
	ready   reportKind = "ready"   // waits for the coordinator to begin
	waiting reportKind = "waiting" // for the lock
	paying  reportKind = "paying"  // has read, will write; waits for the coordinator
	sold    reportKind = "sold"    // has written
	refused reportKind = "refused" // the fence refused the write
	late    reportKind = "late"    // the fence refused to let it read
	soldOut reportKind = "sold out"
)
