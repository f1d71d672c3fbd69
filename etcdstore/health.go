package etcdstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/holdfast-go/holdfast/store"
)

// statusTimeout bounds the request for the status of a member, if there are others.
const statusTimeout = 2 * time.Second

// inspect requests the status of every member. It returns an error if a member is too old, or if no member responds and
// has a leader. Members that cannot be reached are skipped.
func (s *Store) inspect(ctx context.Context) error {
	endpoints := s.etcd.client.Endpoints()
	answers, errs := s.statuses(ctx, endpoints)
	led, failed := false, 0
	for i, answer := range answers {
		switch {
		case errs[i] != nil:
			failed++
		case tooOld(answer.Version):
			err := fmt.Errorf("%s is etcd %s, and %d.%d.%d is the oldest that will do",
				endpoints[i], answer.Version, oldest[0], oldest[1], oldest[2])
			return &store.Fault{Store: s.frame.Name, Final: true, Err: err}
		default:
			led = led || answer.Leader != 0
		}
	}
	switch {
	case failed == len(errs):
		return worst(errs)
	case !led:
		err := errors.New("it has no leader: more than half of its members must be there")
		return &store.Fault{Store: s.frame.Name, Err: err}
	}
	return nil
}

// worst returns the most important error: a final one, if there is one.
func worst(errs []error) error {
	for _, err := range errs {
		if _, final := explain(err); final {
			return err
		}
	}
	return errs[0]
}

// statuses requests the status of these members at the same time. A member that does not respond has an error.
func (s *Store) statuses(ctx context.Context, endpoints []string) ([]*etcdserverpb.StatusResponse, []error) {
	answers := make([]*etcdserverpb.StatusResponse, len(endpoints))
	errs := make([]error, len(endpoints))
	var asking sync.WaitGroup
	for i, endpoint := range endpoints {
		asking.Go(func() {
			within, cancel := context.WithTimeout(ctx, statusTimeout)
			defer cancel()
			answers[i], errs[i] = s.status(within, endpoint)
		})
	}
	asking.Wait()
	return answers, errs
}

// status requests the status of one member, and fails at once if it cannot be reached.
func (s *Store) status(ctx context.Context, endpoint string) (*etcdserverpb.StatusResponse, error) {
	conn, err := s.etcd.client.Dial(endpoint)
	if err != nil {
		return nil, err
	}
	defer conn.Close() //nolint:errcheck // the answer is there
	return etcdserverpb.NewMaintenanceClient(conn).Status(ctx, &etcdserverpb.StatusRequest{})
}

// oldest is the first version in which a leader that was deposed neither renews nor revokes leases.
var oldest = [3]int{3, 5, 13}

// tooOld reports whether a version is older than that. A version that cannot be parsed is not too old.
func tooOld(version string) bool {
	var v [3]int
	n, _ := fmt.Sscanf(version, "%d.%d.%d", &v[0], &v[1], &v[2])
	return n == len(v) && slices.Compare(v[:], oldest[:]) < 0
}
