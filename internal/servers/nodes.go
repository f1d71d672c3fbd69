package servers

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// askPatience is how long a node may take to say how it stands. One that is paused never does.
const askPatience = 500 * time.Millisecond

// each does something with all nodes at the same time.
func each[N any](nodes []N, do func(N) error) error {
	errs := make([]error, len(nodes))
	var all sync.WaitGroup
	for i, node := range nodes {
		all.Go(func() { errs[i] = do(node) })
	}
	all.Wait()
	return errors.Join(errs...)
}

// addrsOf are the addresses of all nodes, as host:port.
func addrsOf[N interface{ Addr() string }](nodes []N) []string {
	var addrs []string
	for _, node := range nodes {
		addrs = append(addrs, node.Addr())
	}
	return addrs
}

// agreed is the server that more than half of the voters name by its address. Who does not answer names none.
func agreed(voters, servers []*RedisServer, named func(*RedisServer) (addr string, err error)) (*RedisServer, error) {
	var mu sync.Mutex
	votes := map[string]int{}
	err := each(voters, func(voter *RedisServer) error {
		addr, err := named(voter)
		if err != nil {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		votes[addr]++
		return nil
	})
	for _, server := range servers {
		if votes[server.Addr()] > len(voters)/2 {
			return server, nil
		}
	}
	return nil, errors.Join(fmt.Errorf("no majority names one of %v: %v", addrsOf(servers), votes), err)
}

// poll asks until the answer is good.
func poll(check func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.Background(), startPatience)
	defer cancel()
	for {
		err := check(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("not after %v: %w", startPatience, err)
		case <-time.After(pollEvery):
		}
	}
}

// pollFor asks until there is an answer.
func pollFor[A any](ask func() (A, error)) (answer A, err error) {
	err = poll(func(context.Context) (err error) {
		answer, err = ask()
		return err
	})
	return answer, err
}
