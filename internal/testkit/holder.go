package testkit

import (
	"bufio"
	"context"
	"encoding/json"
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

// A holding is the input of such a process. The process ends when its input ends.
type holding struct {
	URL  string
	Lock string
	Dir  string // for its history
}

// A saying is a line of the output of such a process.
type saying struct {
	Event string // held or lost
	Token holdfast.Token
}

// HolderChild makes this program a process that holds a lock, and does not return, if [Journal.StartHolder] has started
// it. It must be called first, after stores are registered.
func HolderChild() {
	if os.Getenv(holderEnv) == "" {
		return
	}
	if err := beHolder(os.Stdin, json.NewEncoder(os.Stdout)); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// beHolder acquires the lock, records that it believes to hold it, and writes a line when it no longer does.
func beHolder(in io.Reader, out *json.Encoder) error {
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
	hold := history.Hold{Resource: h.Lock, Kind: history.Exclusive, Token: lease.Token()}
	belief, ok := recorder.Begin(hold, func() bool { return lease.Context().Err() == nil })
	if !ok {
		return lease.Err()
	}
	if err := out.Encode(saying{"held", lease.Token()}); err != nil {
		return err
	}
	go func() {
		for belief.Check() {
			time.Sleep(time.Millisecond)
		}
		_ = out.Encode(saying{"lost", lease.Token()}) // if nobody hears it, the input has ended too
	}()
	lines.Scan()
	return nil
}

// A Holder is a process that holds the lock of a journal until it ends or loses the lock.
type Holder struct {
	*os.Process
	Token holdfast.Token

	journal *Journal
	cmd     *exec.Cmd
	says    *json.Decoder
}

// StartHolder starts a process and returns when it has acquired the lock. The process is ended with the test.
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
	h.says = json.NewDecoder(out)
	in, err := h.cmd.StdinPipe()
	j.Must(err)
	j.Must(h.cmd.Start())
	h.Process = h.cmd.Process
	j.Cleanup(h.Kill)
	j.Must(json.NewEncoder(in).Encode(holding{url, j.Mutex, j.Dir}))
	h.Token = h.hear("held")
	return h
}

// AwaitLost waits until the process has noticed that it has lost the lock.
func (h *Holder) AwaitLost() {
	h.journal.Helper()
	h.hear("lost")
}

// hear waits for the next line of the process, which must report this event.
func (h *Holder) hear(event string) holdfast.Token {
	h.journal.Helper()
	var s saying
	if err := h.says.Decode(&s); err != nil || s.Event != event {
		h.journal.Fatalf("the process says %+v and %v, want %q", s, err, event)
	}
	return s.Token
}

// Kill ends the process as kill -9 does.
func (h *Holder) Kill() {
	_ = h.Process.Kill() // it may have been killed before
	_ = h.cmd.Wait()
}
