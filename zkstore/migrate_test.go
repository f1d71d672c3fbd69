package zkstore_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/servers"
	"github.com/holdfast-go/holdfast/internal/testkit"
)

// The three releases of docs/migrating/zookeeper.md take the lock in turn: that with Curator's layout, that with both,
// and that with Holdfast's own. Each excludes the one before, and the tokens that it hands to fences are greater.
func TestCuratorThenBothThenOwn(t *testing.T) {
	t.Parallel()
	server := servers.ZooKeeper(t)
	at := "zk://" + server.Addr() + "?tick=200ms&ttl=30s"
	own := holdfast.New(openURL(t, at))
	defer own.Close()
	curator := holdfast.New(openURL(t, at+"&layout=curator"))
	defer curator.Close()
	type release struct {
		token  holdfast.Token
		unlock func(context.Context) error
	}
	single := func(locks *holdfast.Client) func(holdfast.Option) (release, error) {
		return func(wait holdfast.Option) (release, error) {
			lease, err := locks.Mutex("moved", wait).Lock(t.Context())
			if err != nil {
				return release{}, err
			}
			return release{lease.Token(), lease.Unlock}, nil
		}
	}
	takes := map[string]func(wait holdfast.Option) (release, error){
		"Curator's": single(curator),
		"own":       single(own),
		"both": func(wait holdfast.Option) (release, error) {
			both, err := holdfast.LockAll(t.Context(), curator.Mutex("moved", wait), own.Mutex("moved"))
			if err != nil {
				return release{}, err
			}
			return release{both.Tokens()[1], both.Unlock}, nil
		},
	}
	var last holdfast.Token
	for _, pair := range [][2]string{
		{"Curator's", "both"}, {"both", "Curator's"}, {"both", "own"}, {"own", "both"}, {"both", "both"},
	} {
		held, err := takes[pair[0]](holdfast.WithWait(testkit.Patience))
		testkit.Must(t, err)
		if held.token <= last {
			t.Errorf("%s: its token %d follows on %d", pair[0], held.token, last)
		}
		last = held.token
		_, err = takes[pair[1]](holdfast.WithWait(time.Second))
		// Or no answer who holds it.
		if !errors.Is(err, holdfast.ErrLocked) && !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s while %s holds: %v, want that it is locked", pair[1], pair[0], err)
		}
		testkit.Check(t, held.unlock(t.Context()))
	}
}
