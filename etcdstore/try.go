package etcdstore

import (
	"context"
	"errors"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"go.etcd.io/etcd/client/v3"

	"github.com/holdfast-go/holdfast/line"
	"github.com/holdfast-go/holdfast/store"
)

// try joins if the line is empty, and reads it otherwise: nobody who is refused has stood in the way of others. A claim
// that shares may fit nevertheless. Joined says that standing is the answer of a claim that stands; otherwise it tells who
// holds.
func (j *joining) try(ctx context.Context, ses *session) (joined bool, standing store.Standing, again bool, err error) {
	s := j.store
	names := s.keys.line(j.Name)
	read := s.head(j.Name)
	if j.Units < j.Limit {
		read = j.whoIsThere()
	}
	answer, unsure, err := s.commit(ctx, transaction{
		when: []clientv3.Cmp{
			j.inEpoch(),
			clientv3.Compare(clientv3.CreateRevision(names).WithPrefix(), "=", 0),
		},
		then:   []clientv3.Op{j.put()},
		orElse: append(j.whyNot(ses), clientv3.OpGet(j.key, clientv3.WithCountOnly()), read),
	})
	j.unsure = j.unsure || unsure
	switch {
	case errors.Is(err, rpctypes.ErrLeaseNotFound):
		s.lose(ses)
		return false, standing, true, nil
	case err != nil:
		return false, standing, false, err
	case answer.Succeeded:
		standing, again, err = j.joined(ctx, ses, answer.Header.Revision, &etcdserverpb.RangeResponse{})
		return true, standing, again, err
	}
	own, others := answer.Responses[1].GetResponseRange(), answer.Responses[2].GetResponseRange()
	if own.Count > 0 || others.Count == 0 {
		standing, again, err = j.refused(ctx, ses, answer)
		return true, standing, again, err
	}
	j.there, err = s.decodeLine(others.Kvs)
	if err == nil && line.Mismatch(j.there[0].ask(), j.Ask) {
		err = &store.MismatchError{InUse: j.there[0].ask()}
	}
	standing.Ahead = int(others.Count)
	return false, standing, false, err
}

// mayFit says whether it is worth to join behind those who are there. If not, standing tells who holds.
func (j *joining) mayFit(standing *store.Standing) bool {
	if state, _ := evaluate(j.there, j.Ask); j.Units < j.Limit && state == store.Held {
		return true
	}
	holder := j.store.place(&j.there[0], store.Held)
	standing.Holder = &holder
	return false
}
