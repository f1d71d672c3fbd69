package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/servers"
)

// Plain mode and Consul's own locks on one key: processes of both take turns, and never hold at once.

func init() {
	contestants = append(contestants,
		contestant{name: "test-consul-plain", role: ours, on: consulSite, open: openConsulPlain("")},
		contestant{name: "test-consul-plain-program", role: ours, on: consulSite, open: openConsulPlain(consulLockKey)},
		contestant{name: "test-consul-program", role: peer, on: consulSite, open: openConsulProgram},
	)
}

// consulLockKey is what the program `consul lock` adds to the prefix that it is given.
const consulLockKey = "/.lock"

// openConsulPlain is Holdfast in plain mode, each turn by way of the server. Names end so.
func openConsulPlain(suffix string) func(context.Context, string, time.Duration) (locker, error) {
	return func(ctx context.Context, where string, ttl time.Duration) (locker, error) {
		l, err := holdfastOn("consul://", strict)(ctx, fmt.Sprintf("%s?ttl=%v&mode=plain", where, ttl), ttl)
		return suffixLocker{l, suffix}, err
	}
}

// A suffixLocker adds to names.
type suffixLocker struct {
	locker
	suffix string
}

func (l suffixLocker) Acquire(ctx context.Context, name string) (lease, error) {
	return l.locker.Acquire(ctx, name+l.suffix)
}

// consulProgram takes each lock with a process of its own, `consul lock`, whose child stands still until it is told to
// end.
type consulProgram struct{ path, where string }

func openConsulProgram(ctx context.Context, where string, _ time.Duration) (locker, error) {
	l := consulProgram{where: where}
	stop, err := servers.Outside(ctx, func(t testing.TB) { l.path = servers.Need(t, "consul") })
	if err != nil {
		return nil, err
	}
	return l, stop()
}

func (consulProgram) Close() error { return nil }

func (l consulProgram) Acquire(ctx context.Context, name string) (lease, error) {
	const child = "echo held; cat >/dev/null"
	cmd := exec.Command(l.path, "lock", "-http-addr", l.where, "-pass-stdin", name, child)
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	hold := context.AfterFunc(ctx, func() { _ = cmd.Process.Kill() })
	said, err := bufio.NewReader(stdout).ReadString('\n')
	if !hold() || said != "held\n" {
		err = errors.Join(err, stdin.Close(), cmd.Wait(), ctx.Err())
		return nil, fmt.Errorf("consul lock said %q: %w", said, err)
	}
	return leaseFunc(func() error { return errors.Join(stdin.Close(), cmd.Wait()) }), nil
}

// Of those that contend for a lock of Consul's library, one that loses a race sleeps for five seconds, and the program
// takes a while to start. So both sides pause between two turns.
func TestPlainModeAmongConsulLocks(t *testing.T) {
	servers.Need(t, "consul")
	for _, test := range []struct {
		ours, peer string
		pause      time.Duration
	}{
		{"test-consul-plain", "api-lock", 50 * time.Millisecond},
		{"test-consul-plain-program", "test-consul-program", 200 * time.Millisecond},
	} {
		t.Run(test.peer, func(t *testing.T) {
			t.Parallel()
			takeTurns(t, consulSite, test.pause, sideOf(test.ours), sideOf(test.peer))
		})
	}
}

// The control: a line of the same name is another lock, and the check above sees that.
func TestLineAndConsulLocksDoNotSeeEachOther(t *testing.T) {
	servers.Need(t, "consul")
	t.Parallel()
	testBlind(t, consulSite, sideOf("holdfast-consul"), sideOf("api-lock-session"))
}
