package rediswire

import (
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

// askInfo asks a server what it is.
func askInfo(ctx context.Context, conn rueidis.DedicatedClient) (Info, error) {
	asked := time.Now()
	answers := conn.DoMulti(ctx, conn.B().Info().Build(), conn.B().Time().Build())
	took := time.Since(asked)
	text, err := answers[0].ToString()
	if err != nil {
		return Info{}, err
	}
	info := ReadInfo(text)
	if info.Get("redis_version") == "" || info.Get("run_id") == "" {
		return Info{}, fmt.Errorf("%w: INFO names neither version nor run id; is it a Redis server?", ErrShape)
	}
	if info.Get("redis_mode") == "sentinel" { // which has no TIME, and is not what is wanted here anyway
		return info, nil
	}
	clock, err := answers[1].AsStrSlice()
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
