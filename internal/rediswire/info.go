package rediswire

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"
)

// ErrShape says that an answer is not what Redis would say to this.
var ErrShape = errors.New("an answer of a shape that was not expected")

// Info is what a server said of itself when a connection was made.
type Info struct {
	fields map[string]string // as INFO has them
	met    time.Time         // when it told its time, on this machine's clock
	ahead  time.Duration     // how far its clock is ahead, give or take the time of a message
}

// readInfo reads from a server what it is.
func readInfo(ctx context.Context, w *Wire) (Info, error) {
	asked := time.Now()
	replies := w.link.do(ctx, &request{commands: []rueidis.Completed{w.B().Info().Build(), w.B().Time().Build()}})
	took := time.Since(asked)
	text, err := replies[0].Text()
	if err != nil {
		return Info{}, err
	}
	info := ReadInfo(text)
	if info.Get("redis_version") == "" {
		return Info{}, fmt.Errorf("%w: INFO names no version; is it a Redis server?", ErrShape)
	}
	if info.Mode() == "sentinel" { // which has no TIME, and is not what is wanted here anyway
		return info, nil
	}
	clock, err := replies[1].Texts()
	if err != nil {
		return Info{}, err
	}
	now, err := serverTime(clock)
	if err != nil {
		return Info{}, err
	}
	info.met = asked.Add(took)
	info.ahead = now.Sub(asked.Add(took / 2))
	return info, nil
}

// ReadInfo reads the answer to INFO.
func ReadInfo(text string) Info {
	info := Info{fields: map[string]string{}}
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			info.fields[name] = value
		}
	}
	return info
}

// serverTime reads the answer to TIME.
func serverTime(clock []string) (time.Time, error) {
	if len(clock) == 2 {
		seconds, err1 := strconv.ParseInt(clock[0], 10, 64)
		micros, err2 := strconv.ParseInt(clock[1], 10, 64)
		// The scripts compare microseconds as text of 16 digits.
		if err1 == nil && err2 == nil && len(clock[0]) == 10 {
			return time.Unix(seconds, micros*1000), nil
		}
	}
	return time.Time{}, fmt.Errorf("%w: its time is %q", ErrShape, clock)
}

// Get is what the server says under a name, as in Get("redis_version"); empty: nothing.
func (i *Info) Get(name string) string { return i.fields[name] }

// Mode is how the server runs: standalone, sentinel or cluster. Since version 8, Valkey has a word of its own for it.
func (i *Info) Mode() string { return cmp.Or(i.Get("server_mode"), i.Get("redis_mode")) }

// String names the server with its version, as in "Redis 7.0.15". For others, redis_version is only what they resemble.
func (i *Info) String() string {
	switch {
	case i.Get("valkey_version") != "":
		return "Valkey " + i.Get("valkey_version")
	case i.Get("dragonfly_version") != "":
		return "Dragonfly " + i.Get("dragonfly_version")
	case i.Get("mvcc_depth") != "": // which no other has
		return "KeyDB " + i.Get("redis_version")
	}
	return "Redis " + i.Get("redis_version")
}

// Version is the server's version, with its name if it is not Redis.
func (i *Info) Version() string { return strings.TrimPrefix(i.String(), "Redis ") }

// Lacks says what a server that only resembles Redis lacks for keeping locks in any way; nil: nothing that it tells.
func (i *Info) Lacks() error {
	switch {
	case i.Get("run_id") == "":
		return fmt.Errorf(
			"it is %s, whose INFO has no run_id: nobody would notice a restart, and that locks may be lost with it; "+
				"no setting of it helps, use Redis or Valkey",
			i,
		)
	case i.Get("role") == "active-replica":
		return fmt.Errorf(
			"it is %s as an active replica: its peers take writes too, and the latest wins, so that two clients would "+
				"hold one lock; set active-replica no",
			i,
		)
	}
	return nil
}

// Run names the server's run in what scripts write.
func (i *Info) Run() string { return i.Get("run_id")[:min(len(i.Get("run_id")), 12)] }

// Ahead is how far the server's clock is ahead of this machine's, give or take the time of a message.
func (i *Info) Ahead() time.Duration { return i.ahead }

// Now is the server's time as far as can be told from here. It is for people only.
func (i *Info) Now() time.Time { return i.met.Add(i.ahead + time.Since(i.met)) }

// OlderThan says whether the server is of an earlier version.
func (i *Info) OlderThan(major, minor int) bool {
	first, rest, _ := strings.Cut(i.Get("redis_version"), ".")
	second, _, _ := strings.Cut(rest, ".")
	a, err1 := strconv.Atoi(first)
	b, err2 := strconv.Atoi(second)
	return err1 == nil && err2 == nil && (a < major || a == major && b < minor)
}

// Evicts says whether it may throw locks away when its memory is full. Every policy but one can: their keys have an
// expiry.
func (i *Info) Evicts() bool {
	limit, _ := strconv.ParseInt(i.Get("maxmemory"), 10, 64) // 0: nothing is known
	policy := i.Get("maxmemory_policy")
	return limit > 0 && policy != "" && policy != "noeviction"
}
