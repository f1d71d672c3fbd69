package memstore

import (
	"context"
	"errors"
	"sync"

	"github.com/holdfast-go/holdfast/store"
)

func init() { store.Register("memory", open) }

// shared has the servers that memory:NAME opens, one for each name, for the life of the process.
var shared = struct {
	sync.Mutex
	servers map[string]*Server
}{servers: map[string]*Server{}}

// open opens the store at a URL of this package. It returns an error if the URL has a host, a user or an unknown
// parameter.
func open(_ context.Context, at store.Location) (store.Store, error) {
	if err := at.Allow(); err != nil {
		return nil, err
	}
	if len(at.Hosts) > 0 || at.User != nil {
		return nil, errors.New("a memory store has no host: write memory: or memory:NAME")
	}
	if at.Path == "" {
		return NewServer().Connect(WithPrefix(at.Prefix)), nil
	}
	shared.Lock()
	defer shared.Unlock()
	s := shared.servers[at.Path]
	if s == nil {
		s = NewServer()
		shared.servers[at.Path] = s
	}
	return s.Connect(WithPrefix(at.Prefix)), nil
}
