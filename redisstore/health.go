package redisstore

import (
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/holdfast-go/holdfast/internal/rediswire"
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

	evicts bool // whether it may throw locks away
}

// newServer is what a server said of itself.
func newServer(info *rediswire.Info) *Server {
	s := &Server{
		Version: info.Get("redis_version"), RunID: info.Get("run_id"), Role: info.Get("role"), Mode: info.Get("redis_mode"),
		Eviction: info.Get("maxmemory_policy"), Ahead: info.Ahead(), evicts: info.Evicts(),
	}
	s.MaxMemory, _ = strconv.ParseInt(info.Get("maxmemory"), 10, 64) // 0: nothing is known
	return s
}

// runText names the server's run in what the scripts write. It carries the format's version.
func runText(info *rediswire.Info) string { return "1 " + info.Run() + " " }

// usable says whether locks can be kept there at all.
func usable(info *rediswire.Info, inCluster bool) error {
	mode, role, version := info.Get("redis_mode"), info.Get("role"), info.Get("redis_version")
	switch {
	case inCluster && mode != "cluster":
		return errors.New("it is no node of a Redis Cluster; name it with redis://")
	case inCluster && info.OlderThan(7, 0):
		return fmt.Errorf("it is Redis %s, and in a cluster 7.0 is the oldest that will do", version)
	case mode == "sentinel":
		return errors.New("it is a Sentinel, which keeps no data; name the master")
	case mode == "cluster" && !inCluster:
		return errCluster
	case role != "" && role != "master":
		return errReplica
	case info.OlderThan(6, 2):
		return fmt.Errorf("it is Redis %s, and 6.2 is the oldest that will do", version)
	}
	return nil
}
