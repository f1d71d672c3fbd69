package testkit

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/lab/history"
)

// holderEnv makes a test binary a process that holds a lock.
const holderEnv = "HOLDFAST_TEST_HOLDER"

// A holding is the first line of input of such a process. Every further line makes it write late, see HolderChild. The
// process ends when its input ends.
type holding struct {
	URL  string
	Lock string
	Dir  string // for its history
}

// A report is a line that such a process writes.
type report struct {
	Event   string // held, lost or wrote
	Token   holdfast.Token
	Written bool // of wrote: the server has carried out the write
}

// A LateWriter returns a function that writes under a guard of the lease, at the servers of the URL, without checking
// the lease before: a holder that is stopped between the check and the write writes late. It reports whether the server
// has carried out the write.
type LateWriter func(url string, lease *holdfast.Lease) (write func() (written bool, err error), err error)

// HolderChild makes this program a process that holds a lock, and does not return, if [Journal.StartHolder] has started
// it. It must be called first, after stores are registered. The writer is for [Holder.WriteLate]; it may be nil.
func HolderChild(writer LateWriter) {
	if os.Getenv(holderEnv) == "" {
		return
	}
	if err := beHolder(os.Stdin, json.NewEncoder(os.Stdout), writer); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// beHolder acquires the lock, records for how long it believes to hold it, and reports when it does not any more.
func beHolder(in io.Reader, out *json.Encoder, writer LateWriter) error {
	lines := bufio.NewScanner(in)
	var h holding
	if !lines.Scan() {
		return io.ErrUnexpectedEOF
	}
	if err := json.Unmarshal(lines.Bytes(), &h); err != nil {
		return err
	}
	ctx := context.Background()
	locks, err := holdfast.Open(ctx, h.URL)
	if err != nil {
		return err
	}
	recorder, err := history.Create(h.Dir, "holder")
	if err != nil {
		return err
	}
	lease, err := locks.Mutex(h.Lock).Lock(ctx)
	if err != nil {
		return err
	}
	write := func() (bool, error) { return false, errors.ErrUnsupported }
	if writer != nil {
		if guarded, err := writer(h.URL, lease); err == nil { // a broken store has no guard
			write = guarded
		}
	}
	hold := history.Hold{Resource: h.Lock, Kind: history.Exclusive, Token: lease.Token()}
	belief, ok := recorder.Begin(hold, func() bool { return lease.Context().Err() == nil })
	if !ok {
		return lease.Err()
	}
	if err := out.Encode(report{Event: "held", Token: lease.Token()}); err != nil {
		return err
	}
	go func() {
		for belief.Check() {
			time.Sleep(time.Millisecond)
		}
		_ = out.Encode(report{Event: "lost", Token: lease.Token()}) // if that fails, the input has ended too
	}()
	for lines.Scan() {
		written, err := write()
		if err != nil {
			return err
		}
		if err := out.Encode(report{Event: "wrote", Token: lease.Token(), Written: written}); err != nil {
			return err
		}
	}
	return nil
}

// A Holder is a process that holds the lock of a journal until it ends or loses the lock.
type Holder struct {
	*os.Process
	Token holdfast.Token

	journal *Journal
	cmd     *exec.Cmd
	in      io.Writer
	reports *json.Decoder
}

// StartHolder starts a process and returns when it has acquired the lock. The process ends with the test.
func (j *Journal) StartHolder(url string) *Holder {
	j.Helper()
	self, err := os.Executable()
	j.Must(err)
	h := &Holder{journal: j, cmd: exec.Command(self)}
	// With the race detector it would linger at its end for a second.
	h.cmd.Env = append(os.Environ(), holderEnv+"=1", "GORACE=atexit_sleep_ms=0 "+os.Getenv("GORACE"))
	h.cmd.Stderr = os.Stderr
	out, err := h.cmd.StdoutPipe()
	j.Must(err)
	h.reports = json.NewDecoder(out)
	h.in, err = h.cmd.StdinPipe()
	j.Must(err)
	j.Must(h.cmd.Start())
	h.Process = h.cmd.Process
	j.Cleanup(h.Kill)
	j.Must(json.NewEncoder(h.in).Encode(holding{url, j.Mutex, j.Dir}))
	h.Token = h.next("held").Token
	return h
}

// AwaitLost waits until the process has noticed that it has lost the lock.
func (h *Holder) AwaitLost() {
	h.journal.Helper()
	h.next("lost")
}

// WriteLate has the process write without checking its lease, and reports whether the server has carried that out.
func (h *Holder) WriteLate() (written bool) {
	h.journal.Helper()
	_, err := fmt.Fprintln(h.in)
	h.journal.Must(err)
	return h.next("wrote").Written
}

// next waits for the next report of the process, which must be of this event.
func (h *Holder) next(event string) (r report) {
	h.journal.Helper()
	if err := h.reports.Decode(&r); err != nil || r.Event != event {
		h.journal.Fatalf("the process reports %+v and %v, want %q", r, err, event)
	}
	return r
}

// Kill ends the process as kill -9 does.
func (h *Holder) Kill() {
	_ = h.Process.Kill() // it may have been killed before
	_ = h.cmd.Wait()
}
