package verify

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/fence"
	"github.com/holdfast-go/holdfast/lab/history"
)

// The registers: one behind a fence, and one that accepts every write.
const (
	fencedRegister   = "register"
	unfencedRegister = "register without a fence"
)

// A guard keeps the registers of a run in the process that is not a target of faults. Workers connect to it by a Unix
// socket.
type guard struct {
	listener net.Listener
	serving  sync.WaitGroup

	mu        sync.Mutex
	conns     map[net.Conn]struct{}
	registers map[string]*register
}

// A register is a value with an optional fence.
type register struct {
	gate  *fence.Gate // nil: there is none
	value string

	writer  string          // the process that read last in order to write
	entered history.Instant // when that was; 0: it has been written since
	trap    trap            // for the next one; may be nil
}

// A guardRequest is a line that a worker sends. A guardReply is the response.
type (
	guardRequest struct {
		Process  string
		Register string
		Token    holdfast.Token
		Update   bool   // it reads in order to write
		Write    bool   // it writes
		Value    string // what it writes
	}
	guardReply struct {
		Value string // what it has read
		Stale bool   // the fence has refused it
	}
)

// startGuard starts a guard whose socket is in dir.
func startGuard(dir string) (*guard, error) {
	listener, err := net.Listen("unix", filepath.Join(dir, "guard"))
	if err != nil {
		return nil, fmt.Errorf("holdfast: verify: %w", err)
	}
	g := &guard{
		listener: listener, conns: map[net.Conn]struct{}{},
		registers: map[string]*register{fencedRegister: {gate: &fence.Gate{}}, unfencedRegister: {}},
	}
	g.serving.Go(g.accept)
	return g, nil
}

func (g *guard) accept() {
	for {
		conn, err := g.listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			time.Sleep(time.Millisecond) // out of descriptors, for the moment
			continue
		}
		g.mu.Lock()
		g.conns[conn] = struct{}{}
		g.mu.Unlock()
		g.serving.Go(func() { g.serve(conn) })
	}
}

func (g *guard) serve(conn net.Conn) {
	defer conn.Close() //nolint:errcheck // the worker has disconnected
	from, to := json.NewDecoder(conn), json.NewEncoder(conn)
	for {
		var r guardRequest
		if from.Decode(&r) != nil {
			return
		}
		reply := g.handle(&r)
		if t := g.sprung(&r); t != nil {
			t(r.Process)
		}
		if to.Encode(reply) != nil {
			return
		}
	}
}

// handle carries out a request atomically.
func (g *guard) handle(r *guardRequest) (reply guardReply) {
	g.mu.Lock()
	defer g.mu.Unlock()
	reg := g.registers[r.Register]
	if reg == nil {
		return guardReply{Stale: true}
	}
	do := func() error {
		reply.Value = reg.value
		switch {
		case r.Write:
			reg.value, reg.entered = r.Value, 0
		case r.Update:
			reg.writer, reg.entered = r.Process, history.Now()
		}
		return nil
	}
	if reg.gate == nil {
		_ = do()
	} else if err := reg.gate.Do(r.Token, do); err != nil {
		reply.Stale = true
	}
	return reply
}

// A trap is called with the process that reads a register in order to write it, before it gets the value.
type trap func(process string)

// arm sets the trap for the next process that reads a register in order to write it.
func (g *guard) arm(name string, t trap) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.registers[name].trap = t
}

// disarm removes the trap of a register. It returns false if it was already sprung.
func (g *guard) disarm(name string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	reg := g.registers[name]
	armed := reg.trap != nil
	reg.trap = nil
	return armed
}

// sprung returns the trap that a request has sprung, or nil.
func (g *guard) sprung(r *guardRequest) trap {
	g.mu.Lock()
	defer g.mu.Unlock()
	reg := g.registers[r.Register]
	if reg == nil || !r.Update || reg.writer != r.Process {
		return nil
	}
	t := reg.trap
	reg.trap = nil
	return t
}

// writes reports whether a process was the last to read a register in order to write it, and has not written yet.
func (g *guard) writes(name, process string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	reg := g.registers[name]
	return reg.entered != 0 && reg.writer == process
}

// Close ends all connections and the guard.
func (g *guard) Close() error {
	err := g.listener.Close()
	g.mu.Lock()
	for conn := range g.conns {
		_ = conn.Close() // its worker has ended
	}
	g.mu.Unlock()
	g.serving.Wait()
	return err
}

// A guardClient is a worker's connection to the guard, for one goroutine.
type guardClient struct {
	process string
	conn    net.Conn
	to      *json.Encoder
	from    *json.Decoder
}

func dialGuard(process, socket string) (*guardClient, error) {
	conn, err := net.Dial("unix", socket)
	if err != nil {
		return nil, fmt.Errorf("holdfast: verify: %w", err)
	}
	return &guardClient{process, conn, json.NewEncoder(conn), json.NewDecoder(conn)}, nil
}

func (c *guardClient) do(r guardRequest) (reply guardReply, err error) {
	r.Process = c.process
	if err := c.to.Encode(r); err != nil {
		return reply, err
	}
	err = c.from.Decode(&reply)
	return reply, err
}

// sleep waits for d, or until ctx is done, which is its error.
func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
