package redisstore

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"
)

// A Server is what a Redis server said of itself when the store was opened.
type Server struct {
	Version   string        // as in 7.0.15
	RunID     string        // another one after every start
	Role      string        // master, or slave for a replica
	Mode      string        // standalone, sentinel or cluster
	Eviction  string        // what it does when its memory is full, as in noeviction
	MaxMemory int64         // in bytes; 0: no limit
	Ahead     time.Duration // how far its clock is ahead of this machine's, give or take the time of a message
}

// askServer asks a server what it is.
func askServer(ctx context.Context, conn rueidis.DedicatedClient) (*Server, error) {
	asked := time.Now()
	answers := conn.DoMulti(ctx, conn.B().Info().Build(), conn.B().Time().Build())
	took := time.Since(asked)
	info, err := answers[0].ToString()
	if err != nil {
		return nil, err
	}
	s := &Server{}
	fields := map[string]*string{
		"redis_version": &s.Version, "run_id": &s.RunID, "role": &s.Role, "redis_mode": &s.Mode, "maxmemory_policy": &s.Eviction,
	}
	for line := range strings.Lines(info) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		if field := fields[name]; field != nil {
			*field = value
		} else if name == "maxmemory" {
			s.MaxMemory, _ = strconv.ParseInt(value, 10, 64) // 0: nothing is known
		}
	}
	if s.Version == "" || s.RunID == "" {
		return nil, fmt.Errorf("%w: INFO names neither version nor run id; is it a Redis server?", errShape)
	}
	clock, err := answers[1].AsStrSlice()
	if err != nil {
		return nil, err
	}
	now, err := serverTime(clock)
	if err != nil {
		return nil, err
	}
	s.Ahead = now.Sub(asked.Add(took / 2))
	return s, nil
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
	return time.Time{}, fmt.Errorf("%w: its time is %q", errShape, clock)
}

// runText names the server's run in what the scripts write. It carries the format's version.
func (s *Server) runText() string { return "1 " + s.RunID[:min(len(s.RunID), 12)] + " " }

var (
	errReplica = errors.New("it is a replica, which can only be read; name the master")
	errCluster = errors.New("it is a node of a Redis Cluster; name that with redis+cluster://")
)

// usable says whether locks can be kept there at all.
func (s *Server) usable(inCluster bool) error {
	switch {
	case inCluster && s.Mode != "cluster":
		return errors.New("it is no node of a Redis Cluster; name it with redis://")
	case inCluster && s.olderThan(7, 0):
		return fmt.Errorf("it is Redis %s, and in a cluster 7.0 is the oldest that will do", s.Version)
	case s.Mode == "sentinel":
		return errors.New("it is a Sentinel, which keeps no data; name the master")
	case s.Mode == "cluster" && !inCluster:
		return errCluster
	case s.Role != "" && s.Role != "master":
		return errReplica
	case s.olderThan(6, 2):
		return fmt.Errorf("it is Redis %s, and 6.2 is the oldest that will do", s.Version)
	}
	return nil
}

func (s *Server) olderThan(major, minor int) bool {
	first, rest, _ := strings.Cut(s.Version, ".")
	second, _, _ := strings.Cut(rest, ".")
	a, err1 := strconv.Atoi(first)
	b, err2 := strconv.Atoi(second)
	return err1 == nil && err2 == nil && (a < major || a == major && b < minor)
}

// evicts says whether it may throw locks away when its memory is full. Every other policy can: our keys have an expiry.
func (s *Server) evicts() bool {
	return s.MaxMemory > 0 && s.Eviction != "" && s.Eviction != "noeviction"
}
