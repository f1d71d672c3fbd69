package zkstore_test

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

// holderEnv makes this binary a process that holds a lock.
const holderEnv = "HOLDFAST_TEST_ZK_HOLDER"

// A holding is what such a process is told. The end of its input ends it.
type holding struct {
	URL  string
	Lock string
	Dir  string // for its history
}

// A saying is a line that such a process writes.
type saying struct {
	Event string // held or lost
	Token holdfast.Token
}

// holderChild makes this program such a process, if a test has started it as one, and does not return then.
func holderChild() {
	if os.Getenv(holderEnv) == "" {
		return
	}
	if err := beHolder(os.Stdin, json.NewEncoder(os.Stdout)); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// beHolder takes the lock, records that it believes to hold it, and says when it does not any more.
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

// A holder is a process that holds the lock of a witness.
type holder struct {
	*witness
	cmd   *exec.Cmd
	says  *json.Decoder
	token holdfast.Token
}

// startHolder starts a process and returns when it has got the lock.
func (w *witness) startHolder(scheme string, ttl time.Duration) *holder {
	w.Helper()
	self, err := os.Executable()
	w.Must(err)
	h := &holder{witness: w, cmd: exec.Command(self)}
	// With the race detector it would linger at its end for a second.
	h.cmd.Env = append(os.Environ(), holderEnv+"=1", "GORACE=atexit_sleep_ms=0 "+os.Getenv("GORACE"))
	h.cmd.Stderr = os.Stderr
	out, err := h.cmd.StdoutPipe()
	w.Must(err)
	h.says = json.NewDecoder(out)
	in, err := h.cmd.StdinPipe()
	w.Must(err)
	w.Must(h.cmd.Start())
	w.Cleanup(h.kill)
	w.Must(json.NewEncoder(in).Encode(holding{storeURL(scheme, ttl, w.ensemble.Endpoints()...), w.Mutex, w.Dir}))
	h.token = h.hear("held").Token
	return h
}

// hear waits until it says something, which must be this.
func (h *holder) hear(event string) (s saying) {
	h.Helper()
	if err := h.says.Decode(&s); err != nil || s.Event != event {
		h.Fatalf("the process says %+v and %v, want %q", s, err, event)
	}
	return s
}

// kill ends the process as kill -9 does.
func (h *holder) kill() {
	_ = h.cmd.Process.Kill() // it may have been killed before
	_ = h.cmd.Wait()
}
