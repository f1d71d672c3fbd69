package verify

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/internal/servers"
)

// A node is a server that verify started.
type node interface {
	Addr() string
	Pid() int
	Kill() error
	Start() error
	Pause() error
	Continue() error
	LoseData() error
}

// one chooses this server.
func one(n node) func(int) ([]node, error) {
	return func(int) ([]node, error) { return []node{n}, nil }
}

// some chooses n of the servers, by the strike's number.
func some[T node](n int, all []T) func(int) ([]node, error) {
	return func(which int) ([]node, error) {
		var chosen []node
		for i := range n {
			chosen = append(chosen, all[(which+i)%len(all)])
		}
		return chosen, nil
	}
}

// the chooses one server that is determined when the fault begins, such as a leader.
func the[T node](find func() (T, error)) func(int) ([]node, error) {
	return func(int) ([]node, error) {
		n, err := find()
		return []node{n}, err
	}
}

// A restart is a fault that kills one or more servers with -9 and starts them again.
type restart struct {
	name, about, beyond string
	choose              func(which int) ([]node, error)
	between             func(node) error // called for each while it is down; may be nil
	healthy             func() error     // waits until all serve again; nil: they do once started
}

func (r restart) fault() fault {
	strike := func(ctx context.Context, _ *stage, with Strike) (target, proof string, err error) {
		nodes, err := r.choose(with.Which)
		if err != nil {
			return "", "", err
		}
		for _, n := range nodes {
			err = errors.Join(err, n.Kill())
		}
		err = errors.Join(err, sleep(ctx, with.For))
		for _, n := range nodes {
			if r.between != nil {
				err = errors.Join(err, r.between(n))
			}
			err = errors.Join(err, n.Start())
			target, proof = join(target, n.Addr()), join(proof, fmt.Sprintf("it is process %d now", n.Pid()))
		}
		if r.healthy != nil {
			err = errors.Join(err, r.healthy())
		}
		return target, proof, err
	}
	return fault{name: r.name, about: r.about, beyond: r.beyond, lasts: lessThanTTL, strike: strike}
}

// serverFaults returns the faults that one server survives, of whatever kind. healthy may be nil, as in restart.
func serverFaults(n node, healthy func() error) []fault {
	return []fault{
		restart{
			name: "server-kill", about: "the server is killed with -9 and started again", choose: one(n),
			healthy: healthy,
		}.fault(),
		stopped("server-stop", "the server stands still", one(n), nil),
	}
}

// awaitHealth repeats a check until it succeeds.
func awaitHealth(check func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.Background(), startPatience)
	defer cancel()
	for {
		err := check(ctx)
		if err == nil {
			return nil
		}
		if sleep(ctx, 20*time.Millisecond) != nil {
			return fmt.Errorf("not within %v: %w", startPatience, err)
		}
	}
}

// stopped returns a fault that stops servers with SIGSTOP for a while.
func stopped(name, about string, choose func(which int) ([]node, error), healthy func() error) fault {
	strike := func(ctx context.Context, _ *stage, with Strike) (target, proof string, err error) {
		nodes, err := choose(with.Which)
		if err != nil {
			return "", "", err
		}
		for _, n := range nodes {
			err = errors.Join(err, n.Pause())
			target = join(target, n.Addr())
		}
		err = errors.Join(err, sleep(ctx, with.For))
		for _, n := range nodes {
			err = errors.Join(err, n.Continue())
		}
		if healthy != nil {
			err = errors.Join(err, healthy())
		}
		return target, "it got SIGSTOP, and SIGCONT after it", err
	}
	return fault{name: name, about: about, lasts: anyTime, strike: strike}
}

// command returns a fault without a duration.
func command(name, about, target string, do func(ctx context.Context) (proof string, err error)) fault {
	return fault{
		name: name, about: about, lasts: moment,
		strike: func(ctx context.Context, _ *stage, _ Strike) (string, string, error) {
			proof, err := do(ctx)
			return target, proof, err
		},
	}
}

// clockSteps returns faults that set a server's clock back for good, or forward by more than the ttl.
func clockSteps(c *servers.Clock, target string) []fault {
	if c == nil {
		return nil
	}
	step := func(by func(with Strike, ttl time.Duration) time.Duration) strikeFunc {
		return func(ctx context.Context, s *stage, with Strike) (string, string, error) {
			c.Step(by(with, s.ttl))
			return target, fmt.Sprintf("its clock is %v ahead now", c.Offset()), sleep(ctx, with.For)
		}
	}
	return []fault{
		{
			name: "clock-back", about: "the clock of a server is set back", lasts: moment,
			strike: step(func(with Strike, _ time.Duration) time.Duration {
				return -time.Duration(1+with.Which%5) * 100 * time.Millisecond
			}),
		},
		{
			name: "clock-forward", about: "the clock of a server is set forward by more than the ttl",
			lasts:  lessThanTTL,
			beyond: "all claims expire at once, and holders learn of it at their next renewal",
			strike: step(func(_ Strike, ttl time.Duration) time.Duration { return 2 * ttl }),
		},
	}
}

// join joins two texts.
func join(a, b string) string {
	if a == "" {
		return b
	}
	return a + ", " + b
}
