package broken

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/child"
	"github.com/holdfast-go/holdfast/lab/history"
)

// farewell is how long the process of a player may take to end.
const farewell = 5 * time.Second

// A process is a player's lock, and what it protects, in a process of its own. It does what it is told, one thing after
// the other, and records itself what it believes.
type process struct {
	*child.Process
	in     io.WriteCloser
	stderr bytes.Buffer

	mu   sync.Mutex // one request at a time
	says *json.Decoder
}

// An order is the first line that the process of a player reads. After it comes a request in each line.
type order struct {
	Part part
	Dir  string // for its history
}

// A request is what the process is to do next.
type request struct {
	Do    verb
	Value uint64 // what to write
}

// A verb is something that a player can do.
type verb string

const (
	acquire verb = "acquire"
	release verb = "release"
	read    verb = "read"
	write   verb = "write"
)

// A response says that the process has done it.
type response struct {
	Value uint64 // what was read
	OK    bool   // what was written was accepted
	Error string
}

// startProcess starts a player.
func startProcess(ctx context.Context, command func(context.Context) *exec.Cmd, o *order) (*process, error) {
	cmd := command(ctx)
	p := &process{}
	cmd.Stderr = &p.stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, errors.Join(err, in.Close())
	}
	p.in, p.says = in, json.NewDecoder(out)
	if p.Process, err = child.Start(cmd); err != nil {
		return nil, fmt.Errorf("a player does not start: %w", err)
	}
	if err := json.NewEncoder(in).Encode(o); err != nil {
		return nil, errors.Join(err, p.Kill())
	}
	if _, err := p.hear(); err != nil { // it is ready
		return nil, errors.Join(err, p.Kill())
	}
	return p, nil
}

// ask has the process do something, and waits for its response.
func (p *process) ask(r request) (response, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := json.NewEncoder(p.in).Encode(r); err != nil {
		return response{}, p.failed(err)
	}
	return p.hear()
}

func (p *process) hear() (r response, err error) {
	if err = p.says.Decode(&r); err != nil {
		return r, p.failed(err)
	}
	if r.Error != "" {
		return r, errors.New(r.Error)
	}
	return r, nil
}

func (p *process) failed(err error) error {
	if p.Ended() {
		if last := strings.TrimSpace(p.stderr.String()); last != "" {
			return errors.New(last)
		}
	}
	return fmt.Errorf("the process of a player: %w", err)
}

func (p *process) acquire(context.Context) error {
	_, err := p.ask(request{Do: acquire})
	return err
}

func (p *process) release(context.Context) error {
	_, err := p.ask(request{Do: release})
	return err
}

func (p *process) read(context.Context, holdfast.Token) (uint64, error) {
	r, err := p.ask(request{Do: read})
	return r.Value, err
}

func (p *process) write(_ context.Context, _ holdfast.Token, value uint64) (bool, error) {
	r, err := p.ask(request{write, value})
	return r.OK, err
}

// What the process knows itself, and nobody asks it here.
func (p *process) believes() bool        { return true }
func (p *process) token() holdfast.Token { return 0 }

// close tells the process to end, and kills it if it does not.
func (p *process) close() error {
	_ = child.Resume(p.Cmd.Process) // if it was stopped
	_ = p.in.Close()
	select {
	case <-p.Done:
		return nil
	case <-time.After(farewell):
		return p.Kill()
	}
}

// Perform is what the process of a player does. It reads from in what it is to do, until that ends.
func Perform(ctx context.Context, in io.Reader, out io.Writer) (err error) {
	requests, responses := json.NewDecoder(in), json.NewEncoder(out)
	var o order
	if err := requests.Decode(&o); err != nil {
		return fmt.Errorf("holdfast: lab: this command is for holdfast lab: %w", err)
	}
	a := &actor{part: &o.Part}
	if a.recorder, err = history.Create(o.Dir, ""); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, a.close()) }()
	if a.hand, a.reg, err = a.part.open(ctx); err != nil {
		return err
	}
	if err := responses.Encode(response{}); err != nil {
		return err
	}
	for {
		var r request
		if err := requests.Decode(&r); err != nil {
			return nil // the play is over
		}
		said, err := a.do(ctx, r)
		if err != nil {
			said.Error = err.Error()
		}
		if err := responses.Encode(said); err != nil {
			return nil // nobody listens any more
		}
	}
}

// An actor is a player inside its own process.
type actor struct {
	part     *part
	hand     handle
	reg      register
	recorder *history.Recorder
	belief   *belief
}

func (a *actor) do(ctx context.Context, r request) (said response, err error) {
	switch r.Do {
	case acquire:
		if err = a.hand.acquire(ctx); err == nil {
			a.belief, _ = believe(a.recorder, a.part, a.hand, func() {})
		}
	case release:
		a.stopBelieving()
		err = a.hand.release(ctx)
	case read:
		said.Value, err = a.reg.read(ctx, a.hand.token())
	case write:
		said.OK, err = a.reg.write(ctx, a.hand.token(), r.Value)
	default:
		err = fmt.Errorf("a player cannot %q", r.Do)
	}
	return said, err
}

func (a *actor) stopBelieving() {
	a.belief.end()
	a.belief = nil
}

func (a *actor) close() error {
	a.stopBelieving()
	var err error
	if a.hand != nil {
		err = a.hand.close()
	}
	return errors.Join(err, a.recorder.Close())
}
