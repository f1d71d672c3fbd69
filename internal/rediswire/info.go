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

// ErrShape is the error of a reply that Redis would not send.
var ErrShape = errors.New("an answer of a shape that was not expected")

// Info has the properties that a server reported when a connection was made.
type Info struct {
	fields map[string]string // as INFO has them
	met    time.Time         // when it told its time, on this machine's clock
	ahead  time.Duration     // how far its clock is ahead, give or take the time of a message
}

// readInfo requests INFO and the time from a server.
func readInfo(ctx context.Context, w *Connection) (Info, error) {
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
	now, err := serverTime(replies[1])
	if err != nil {
		return Info{}, err
	}
	info.met = asked.Add(took)
	info.ahead = now.Sub(asked.Add(took / 2))
	return info, nil
}

// ReadInfo parses the reply to INFO.
func ReadInfo(text string) Info {
	info := Info{fields: map[string]string{}}
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			info.fields[name] = value
		}
	}
	return info
}

// serverTime parses the reply to TIME.
func serverTime(reply Reply) (time.Time, error) {
	clock, err := reply.Texts()
	if err != nil {
		return time.Time{}, err
	}
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

// Get returns the value of a field of INFO, as in Get("redis_version"), or "" if there is none.
func (i *Info) Get(name string) string { return i.fields[name] }

// Mode returns the mode of the server: standalone, sentinel or cluster. Since version 8, Valkey has its own field for
// it.
func (i *Info) Mode() string { return cmp.Or(i.Get("server_mode"), i.Get("redis_mode")) }

// String returns the server's name with its version, as in "Redis 7.0.15". For other products, redis_version is only
// the version that they resemble.
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

// Version returns the server's version, with its name if it is not Redis.
func (i *Info) Version() string { return strings.TrimPrefix(i.String(), "Redis ") }

// Lacks returns an error if a server that resembles Redis is known to lack what locks need, and nil otherwise.
func (i *Info) Lacks() error {
	switch {
	case i.Get("run_id") == "":
		return fmt.Errorf("it is %s, whose INFO has no run_id: nobody would notice a restart, and "+
			"that locks may be lost with it; no setting of it helps, use Redis or Valkey", i)
	case i.Get("role") == "active-replica":
		return fmt.Errorf("it is %s as an active replica: its peers take writes too, and the latest wins, "+
			"so that two clients would hold one lock; set active-replica no", i)
	}
	return nil
}

// Run returns the server's run as scripts write it.
func (i *Info) Run() string { return i.Get("run_id")[:min(len(i.Get("run_id")), 12)] }

// Ahead returns how far the server's clock is ahead of this machine's, to within the time of a message.
func (i *Info) Ahead() time.Duration { return i.ahead }

// Now returns an estimate of the server's time. It is for human readers only.
func (i *Info) Now() time.Time { return i.met.Add(i.ahead + time.Since(i.met)) }

// OlderThan reports whether the server has an earlier version.
func (i *Info) OlderThan(major, minor int) bool {
	first, rest, _ := strings.Cut(i.Get("redis_version"), ".")
	second, _, _ := strings.Cut(rest, ".")
	a, err1 := strconv.Atoi(first)
	b, err2 := strconv.Atoi(second)
	return err1 == nil && err2 == nil && (a < major || a == major && b < minor)
}

// Evicts reports whether the server may evict locks when its memory is full. Every policy but one can: the keys have an
// expiry.
func (i *Info) Evicts() bool {
	limit, _ := strconv.ParseInt(i.Get("maxmemory"), 10, 64) // 0: nothing is known
	policy := i.Get("maxmemory_policy")
	return limit > 0 && policy != "" && policy != "noeviction"
}
