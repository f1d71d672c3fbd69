package redisstore

import (
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/holdfast-go/holdfast/internal/rediswire"
)

// A Server is what a server said of itself when the store was opened.
type Server struct {
	Version   string        // of Redis, as in 7.0.15, or with the name of another, as in Valkey 8.0.1
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
		Version: info.Version(), RunID: info.Get("run_id"), Role: info.Get("role"), Mode: info.Mode(),
		Eviction: info.Get("maxmemory_policy"), Ahead: info.Ahead(), evicts: info.Evicts(),
	}
	s.MaxMemory, _ = strconv.ParseInt(info.Get("maxmemory"), 10, 64) // 0: nothing is known
	return s
}

// runText names the server's run in what the scripts write. It carries the format's version.
func runText(info *rediswire.Info) string { return "1 " + info.Run() + " " }

// usable says whether locks can be kept there at all.
func usable(info *rediswire.Info, inCluster bool) error {
	mode, role := info.Mode(), info.Get("role")
	lacks := info.Lacks()
	switch {
	case inCluster && mode != "cluster":
		return errors.New("it is no node of a cluster; name it with redis://")
	case inCluster && info.OlderThan(7, 0):
		return fmt.Errorf("it is %s, and in a cluster Redis 7.0 is the oldest that will do", info)
	case mode == "sentinel":
		return errors.New("it is a Sentinel, which keeps no data; name the master")
	case mode == "cluster" && !inCluster:
		return errCluster
	case lacks != nil:
		return lacks
	case role != "" && role != "master":
		return errReplica
	case info.OlderThan(6, 2):
		return fmt.Errorf("it is %s, and Redis 6.2 is the oldest that will do", info)
	}
	return nil
}
