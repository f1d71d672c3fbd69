package servers

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
)

// askPatience bounds a request for the state of a node. A paused node never responds.
const askPatience = 500 * time.Millisecond

// each calls a function for all nodes at the same time.
func each[N any](nodes []N, do func(N) error) error {
	errs := make([]error, len(nodes))
	var all sync.WaitGroup
	for i, node := range nodes {
		all.Go(func() { errs[i] = do(node) })
	}
	all.Wait()
	return errors.Join(errs...)
}

// addrsOf returns the addresses of all nodes, as host:port.
func addrsOf[N interface{ Addr() string }](nodes []N) []string {
	var addrs []string
	for _, node := range nodes {
		addrs = append(addrs, node.Addr())
	}
	return addrs
}

// running returns the servers whose processes are running.
func running(servers []*RedisServer) []*RedisServer {
	return slices.DeleteFunc(slices.Clone(servers), func(r *RedisServer) bool { return r.Pid() == 0 })
}

// agreed returns the server that more than half of the voters name by its address. A voter that does not respond names
// none.
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

// A node is a server of a cluster whose nodes know each other's ports.
type node interface {
	Start() error
	Kill() error
	LoseData() error
	AwaitHealthy() error
}

// startTogether starts nodes on free ports, which choosePorts chooses for all of them. If another process uses one
// first, all of them are started again on others.
func startTogether[N node](nodes []N, choosePorts func() error, start func(N) error) error {
	var err error
	for range maxClashes {
		if err := choosePorts(); err != nil {
			return err
		}
		err = each(nodes, start)
		if !errors.Is(err, errClash) {
			break
		}
		if err := killTogether(nodes, false); err != nil {
			return err
		}
	}
	return err
}

// restartTogether kills all nodes at once, starts them again on the same ports, with their data or without, and waits
// until they serve clients.
func restartTogether[N node](nodes []N, keepData bool) error {
	if err := killTogether(nodes, keepData); err != nil {
		return err
	}
	if err := each(nodes, func(n N) error { return n.Start() }); err != nil {
		return err
	}
	return each(nodes, func(n N) error { return n.AwaitHealthy() })
}

// killTogether kills the nodes that run.
func killTogether[N node](nodes []N, keepData bool) error {
	return each(nodes, func(n N) error {
		if err := n.Kill(); err != nil && !errors.Is(err, errStopped) {
			return err
		}
		if keepData {
			return nil
		}
		return n.LoseData()
	})
}

// A reign is a leader and its term, as one node reports them.
type reign struct {
	leader string
	term   uint64
}

// leaderNow returns the leader, as it and a majority of nodes report. says returns the report of one node, and whether
// the node names itself. A node that does not respond does not count.
func leaderNow[N any](nodes []N, says func(N, context.Context) (reign, bool, error)) (leader N, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), askPatience)
	defer cancel()
	var mu sync.Mutex
	followers := map[reign]int{}
	claims := map[reign]N{}
	err = each(nodes, func(n N) error {
		r, itself, err := says(n, ctx)
		if err != nil {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		followers[r]++
		if itself {
			claims[r] = n
		}
		return nil
	})
	for r, leader := range claims {
		if followers[r] > len(nodes)/2 {
			return leader, nil
		}
	}
	return leader, errors.Join(errors.New("no node leads a majority"), err)
}

// poll repeats a request until its response is good.
func poll(check func(context.Context) error) error { return pollWithin(startPatience, check) }

// pollWithin is poll with another limit than startPatience.
func pollWithin(patience time.Duration, check func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for {
		err := check(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("not after %v: %w", patience, err)
		case <-time.After(pollEvery):
		}
	}
}

// pollFor repeats a request until there is a response.
func pollFor[A any](ask func() (A, error)) (answer A, err error) {
	err = poll(func(context.Context) (err error) {
		answer, err = ask()
		return err
	})
	return answer, err
}

// parseFields reads lines that are a name and a value, and ignores others.
func parseFields(text, separator string) map[string]string {
	fields := map[string]string{}
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), separator); ok {
			fields[name] = value
		}
	}
	return fields
}
