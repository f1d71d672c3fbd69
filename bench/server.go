package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"time"
)

// How a server is started.
const (
	startPatience = 10 * time.Second
	startTries    = 5 // somebody else may take the port between the look and the start
	startPoll     = 10 * time.Millisecond
)

var errStranger = errors.New("somebody else answers on its port")

// startServer has a server started once in a temp folder of its own, and again if that fails.
func startServer(ctx context.Context, program string, once func(dir string) (site, error)) (site, error) {
	dir, err := os.MkdirTemp("", "holdfast-bench-"+program+"-")
	if err != nil {
		return nil, err
	}
	for range startTries {
		var s site
		if s, err = once(dir); err == nil {
			return s, nil
		}
		if ctx.Err() != nil {
			break
		}
	}
	return nil, errors.Join(fmt.Errorf("%s: %w", program, err), os.RemoveAll(dir))
}

// freePort is a port on which nobody listened a moment ago.
func freePort() (int, error) {
	l, err := net.Listen("tcp", loopback(0))
	if err != nil {
		return 0, err
	}
	port := l.Addr().(*net.TCPAddr).Port
	return port, l.Close()
}

func loopback(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }

// awaitReady returns when the server answers, and is the process that was started: check is nil then. If that does not
// come, the process is ended, and the error has what it wrote to its log.
func awaitReady(ctx context.Context, proc *process, log string, check func(context.Context) error) error {
	err := pollReady(ctx, proc, check)
	if err == nil {
		return nil
	}
	proc.kill()
	said, _ := os.ReadFile(log) // without it there is still the error
	return fmt.Errorf("%w; it said:\n%s", err, said)
}

func pollReady(ctx context.Context, proc *process, check func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, startPatience)
	defer cancel()
	for {
		err := check(ctx)
		if err == nil || errors.Is(err, errStranger) {
			return err
		}
		select {
		case <-proc.done:
			return errors.New("it ended at once")
		case <-ctx.Done():
			return errors.Join(ctx.Err(), err)
		case <-time.After(startPoll):
		}
	}
}
