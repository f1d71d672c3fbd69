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

// farewell is how long a worker that is told to end may take to give its lock back.
const farewell = 2 * time.Second

// A process is a worker as the coordinator sees it.
type process struct {
	number int
	cmd    *exec.Cmd
	in     io.WriteCloser
	says   *json.Decoder
	stderr bytes.Buffer
}

// startProcess starts a worker and gives it its order. When ctx is done, the worker's input ends, and so does the
// worker; if not, it is killed.
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
	p.in, p.says = in, json.NewDecoder(out)
	p.cmd.Cancel = in.Close
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("a worker does not start: %w", err)
	}
	if err := json.NewEncoder(in).Encode(o); err != nil {
		return nil, p.end(err)
	}
	return p, nil
}

// hear waits for what the worker says next. It is io.EOF when the worker has ended.
func (p *process) hear() (r report, err error) {
	err = p.says.Decode(&r)
	return r, err
}

// goOn is the word that the worker waits for.
func (p *process) goOn() error {
	_, err := io.WriteString(p.in, "\n")
	return err
}

// end waits until the worker has ended, and makes it end if it has not. why is what made the coordinator stop
// listening to it; the worker's own last words are a better reason.
func (p *process) end(why error) error {
	p.in.Close() //nolint:errcheck // it may be a pipe to nobody by now
	p.resume()   //nolint:errcheck // nor is there always somebody to go on
	err := p.cmd.Wait()
	if errors.Is(why, io.EOF) {
		why = err // it ended by itself: well, or not
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

// pause stops the worker, wherever it is, until resume.
func (p *process) pause() error { return child.Pause(p.cmd.Process) }

func (p *process) resume() error { return child.Resume(p.cmd.Process) }

// An order is the first line that the coordinator sends to a worker. It goes through the pipe and not through the
// arguments, where everyone on the machine could read the store's password. Every line after it is empty, and says
// to go on.
type order struct {
	Worker int
	Stock  string // the file with the stock
	Lock   lockKind
	Fence  bool          // the stock refuses stale tokens
	Store  string        // URL of Holdfast's store
	Name   string        // of the lock
	TTL    time.Duration // of the lease
}

// A lockKind is what a worker takes before it sells.
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
	Hold span // while paying, it ends when the worker's belief would end by itself; afterwards, when it did
}

// A reportKind says what a worker does, or what became of its sale.
type reportKind string

const (
	ready   reportKind = "ready"   // waits for the word to begin
	waiting reportKind = "waiting" // for the lock
	paying  reportKind = "paying"  // has read, will write; waits for the word to go on
	sold    reportKind = "sold"    // has written
	refused reportKind = "refused" // the fence refused the write
	late    reportKind = "late"    // the fence refused to let it read
	soldOut reportKind = "sold out"
)
