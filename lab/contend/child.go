package contend

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"time"
)

// childEnv makes a program a process of a crowd.
const childEnv = "HOLDFAST_LAB_CONTEND"

// How long a process lives at most, and how long it may take to release its locks when it has to stop.
const (
	lifetime = time.Hour
	farewell = 20 * time.Second
)

// Child runs this program as a process of a crowd or of a relay, and does not return, if one has started it. It is
// called before anything else, by the program that calls [Start] or [Relay]. Stores must be registered by then, which
// they are in the program's own functions init and in TestMain.
func Child() {
	program := serve
	switch {
	case os.Getenv(relayEnv) != "":
		program = runLegs
	case os.Getenv(childEnv) == "":
		return
	}
	if err := program(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// self returns the command that runs this program again, with an environment variable set.
func self(env string) (*exec.Cmd, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("holdfast: contend: %w", err)
	}
	cmd := exec.Command(program)
	cmd.Env = append(os.Environ(), env+"=1")
	cmd.Stderr = os.Stderr
	return cmd, nil
}

// serve contends as in says, until that ends.
func serve(in io.Reader, out io.Writer) error {
	EndAfter("contend", lifetime)
	lines := bufio.NewScanner(in)
	if !lines.Scan() {
		return errors.New("holdfast: contend: a process without an order")
	}
	c := &contenders{begun: make(chan struct{}), out: json.NewEncoder(out)}
	if err := json.Unmarshal(lines.Bytes(), &c.order); err != nil {
		return fmt.Errorf("holdfast: contend: an order that cannot be read: %w", err)
	}
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	go func() {
		for lines.Scan() {
			if round, err := strconv.ParseInt(lines.Text(), 10, 64); err == nil {
				c.begin(round)
			}
		}
		EndAfter("contend", farewell)
		stop()
	}()
	return c.contend(ctx)
}
