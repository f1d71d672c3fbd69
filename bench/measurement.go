package main

import (
	"context"
	"encoding/gob"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"time"

	"github.com/holdfast-go/holdfast/internal/child"
)

// startIn is how long workers are told beforehand when to begin. They are ready; it is for the message to arrive.
const startIn = 20 * time.Millisecond

var errTooLong = errors.New("it took too long")

// measureOnce measures one contestant under one workload.
func measureOnce(ctx context.Context, on site, c *contestant, w *workload) (m metrics, firstError string, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, w.limit(), errTooLong)
	defer cancel()
	where, err := on.Fresh(ctx)
	if err != nil {
		return nil, "", err
	}
	defer func() {
		if cause := context.Cause(ctx); err != nil && cause != nil {
			err = cause // what was cut off has nothing more to say
		}
	}()
	hands, err := hireAll(w.Processes, func(p int) (*hand, error) {
		return hire(ctx, assignment{Contestant: c.name, Where: where, Process: p, Workload: *w})
	})
	defer dismissAll(hands)
	if err != nil {
		return nil, "", err
	}
	before, err := on.Usage(ctx)
	if err != nil {
		return nil, "", err
	}
	start, err := beginAll(hands)
	if err != nil {
		return nil, "", err
	}
	if w.Leases > 0 {
		m, err = measureLeases(ctx, on, c, w, hands[0])
		return m, "", err
	}
	if !w.Stops {
		return measureLocking(ctx, on, c, w, hands, before)
	}
	return measureStop(ctx, on, w, hands, start)
}

// hireAll hires workers and waits until all of them are ready. Whatever it returns has to be dismissed.
func hireAll(n int, hire func(p int) (*hand, error)) (hands []*hand, err error) {
	for p := range n {
		h, err := hire(p)
		if err != nil {
			return hands, err
		}
		hands = append(hands, h)
	}
	for _, h := range hands {
		if _, err := h.hear(); err != nil {
			return hands, err
		}
	}
	return hands, nil
}

// beginAll has all workers begin at one instant.
func beginAll(hands []*hand) (start int64, err error) {
	start = newClock().now() + int64(startIn)
	for _, h := range hands {
		if err := h.orders.Encode(begin{start}); err != nil {
			return start, err
		}
	}
	return start, nil
}

func dismissAll(hands []*hand) {
	for _, h := range hands {
		h.dismiss()
	}
}

// hearAll hears what the workers did, and how much processor time that took them.
func hearAll(hands []*hand) (tallies []tally, cpu time.Duration, err error) {
	for _, h := range hands {
		r, err := h.hear()
		if err != nil {
			return nil, 0, err
		}
		tallies = append(tallies, r.Tallies...)
		cpu += r.CPU
	}
	return tallies, cpu, nil
}

// measureLocking hears what the workers did, and computes.
func measureLocking(ctx context.Context, on site, c *contestant, w *workload, hands []*hand, before usage) (metrics,
	string, error) {
	tallies, cpu, err := hearAll(hands)
	if err != nil {
		return nil, "", err
	}
	after, err := on.Usage(ctx)
	if err != nil {
		return nil, "", err
	}
	m := measure(tallies, w.Lasts)
	served := math.Round(m[throughput] * w.Lasts.Seconds())
	if served > 0 && cpu > 0 {
		m[clientPerOp] = float64(cpu.Microseconds()) / served
	}
	if after.known && served > 0 {
		used := after.since(before)
		m[serverPerOp] = float64(used.cpu.Microseconds()) / served
		m[callsPerOp] = float64(used.sent(c.sends)) / served
	}
	if w.Processes == 1 {
		delete(m, handoverRate) // there is nobody to hand over to
	}
	return m, firstErrorOf(tallies), nil
}

// measureStop does the same, and pauses a node meanwhile. It looks at no usage: that node would not say.
func measureStop(ctx context.Context, on site, w *workload, hands []*hand, start int64) (m metrics, firstError string,
	err error) {
	at, resume, err := w.stopHalfway(ctx, on, start)
	if err != nil {
		return nil, "", err
	}
	tallies, _, err := hearAll(hands)
	if err := errors.Join(err, resume()); err != nil {
		return nil, "", err
	}
	m = measure(tallies, w.Lasts)
	compareHalves(m, tallies, at)
	return m, firstErrorOf(tallies), nil
}

// stopHalfway pauses a node when half of the workload is over. It returns when that is, and what ends it.
func (w *workload) stopHalfway(ctx context.Context, on site, start int64) (at int64, resume func() error, err error) {
	nodes, ok := on.(pausable)
	if !ok {
		return 0, nil, errNoPause
	}
	clock := newClock()
	if err := sleep(ctx, clock.until(start)+w.Lasts/2); err != nil {
		return 0, nil, err
	}
	resume, err = nodes.Pause()
	return clock.now(), resume, err
}

// compareHalves adds what locks cost before a node was stopped, and after it. A turn during which that happened counts
// for neither.
func compareHalves(m metrics, tallies []tally, stopped int64) {
	var before, after []int64
	for _, t := range tallies {
		for _, h := range t.Holds {
			switch {
			case h.Released < stopped:
				before = append(before, h.cycle())
			case h.Asked > stopped:
				after = append(after, h.cycle())
			}
		}
	}
	if len(before) > 0 {
		m[beforeP50] = micros(before, 50)
	}
	if len(after) > 0 {
		m[afterP50], m[afterP99] = micros(after, 50), micros(after, 99)
	}
	if len(before) > 0 && len(after) > 0 {
		m[afterToBefore] = m[afterP50] / m[beforeP50]
	}
}

func firstErrorOf(tallies []tally) string {
	for _, t := range tallies {
		if t.FirstError != "" {
			return t.FirstError
		}
	}
	return ""
}

// A hand is a worker as its parent sees it.
type hand struct {
	proc    *child.Process
	orders  encoder
	reports decoder
	pipe    *os.File // its standard output
	stop    func() bool
	said    words // on its standard error
}

type (
	encoder interface{ Encode(any) error }
	decoder interface{ Decode(any) error }

	// A tongue is how a worker and its parent write what they say.
	tongue func(toWorker io.Writer, fromWorker io.Reader) (encoder, decoder)
)

func inJSON(to io.Writer, from io.Reader) (encoder, decoder) {
	return json.NewEncoder(to), json.NewDecoder(from)
}

func inGob(to io.Writer, from io.Reader) (encoder, decoder) {
	return gob.NewEncoder(to), gob.NewDecoder(from)
}

// hire starts this program again, as a worker, or another program if the contestant is one. When ctx is done it is
// killed.
func hire(ctx context.Context, a assignment) (*hand, error) {
	if c := contestantNamed(a.Contestant); c != nil && c.hire != nil {
		return c.hire(ctx, a)
	}
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	return hireProgram(ctx, exec.Command(program, workerArg), inGob, a)
}

func hireProgram(ctx context.Context, cmd *exec.Cmd, speaks tongue, a assignment) (*hand, error) {
	// Not StdoutPipe: that is closed when the worker ends, whether everything was read or not.
	pipe, theirs, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer theirs.Close() //nolint:errcheck // the worker has its own
	h := &hand{pipe: pipe}
	cmd.Stdout, cmd.Stderr = theirs, &h.said
	in, err := cmd.StdinPipe()
	if err == nil {
		h.proc, err = child.Start(cmd)
	}
	if err != nil {
		return nil, errors.Join(err, pipe.Close())
	}
	h.stop = context.AfterFunc(ctx, func() { _ = h.proc.Kill() })
	h.orders, h.reports = speaks(in, pipe)
	if err := h.orders.Encode(a); err != nil {
		h.dismiss()
		return nil, err
	}
	return h, nil
}

// hear waits for the next report. If the worker has failed or is gone, that is the error.
func (h *hand) hear() (r report, err error) {
	err = h.reports.Decode(&r)
	switch {
	case err == nil && r.Err == "":
		return r, nil
	case err == nil:
		return r, errors.New(r.Err)
	case errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF):
		<-h.proc.Done
		return r, fmt.Errorf("a worker is gone: %v: %s", h.proc.Cmd.ProcessState, h.said.String())
	default:
		return r, err
	}
}

// dismiss ends the worker, which has nothing more to say.
func (h *hand) dismiss() {
	h.stop()
	_ = h.proc.Kill()  // if it has ended already, all the better
	_ = h.pipe.Close() // it was only read
}

// words are the first of what is written to it. The rest is mostly the same again.
type words struct{ text []byte }

// maxWords is how much is kept.
const maxWords = 2048

// Write keeps what there is room for.
func (t *words) Write(p []byte) (int, error) {
	t.text = append(t.text, p[:min(len(p), maxWords-len(t.text))]...)
	return len(p), nil
}

func (t *words) String() string { return string(t.text) }
