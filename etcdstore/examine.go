package etcdstore

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/client/v3"

	"github.com/holdfast-go/holdfast/internal/sessionserver"
	"github.com/holdfast-go/holdfast/store"
)

var _ store.Examiner = (*Store)(nil)

// examineWithin bounds each of the requests of an examination.
const examineWithin = 5 * time.Second

// Examine implements store.Examiner.
func (s *Store) Examine(ctx context.Context) []store.Finding {
	ctx, cancel := context.WithTimeout(ctx, 2*examineWithin)
	defer cancel()
	members := s.examineMembers(ctx)
	return []store.Finding{
		{Check: "permissions", Found: s.permissions()},
		members.majority(), members.versions(), s.alarms(ctx, members), sessionserver.Clock(s.ttl), s.space(ctx),
	}
}

func (s *Store) permissions() string {
	if user := s.etcd.client.Username; user != "" {
		return "connected as " + store.Quote(user) + ", which may do what locks need"
	}
	return "connected without a user; every client that reaches etcd can take locks away"
}

// members are what the members of a cluster report.
type members struct {
	total     int // that the cluster has, learners aside; 0: not known
	endpoints []string
	status    []*etcdserverpb.StatusResponse // nil: the member does not respond
	errs      []error
}

// examineMembers requests the status of each member: of those that the cluster names, or of those of the URL if it may
// not be read.
func (s *Store) examineMembers(ctx context.Context) *members {
	m := &members{endpoints: s.etcd.client.Endpoints()}
	within, cancel := context.WithTimeout(ctx, examineWithin)
	list, err := s.etcd.client.MemberList(within)
	cancel()
	if err == nil {
		var named []string
		for _, member := range list.Members {
			if member.IsLearner {
				continue
			}
			m.total++
			if len(member.ClientURLs) > 0 {
				named = append(named, member.ClientURLs[0])
			}
		}
		if len(named) > len(m.endpoints) {
			m.endpoints = named
		}
	}
	m.total = cmp.Or(m.total, len(m.endpoints))
	m.status, m.errs = s.statuses(ctx, m.endpoints)
	return m
}

// majority reports how many members are there, and whether they have a leader.
func (m *members) majority() store.Finding {
	there, leader := 0, uint64(0)
	var away []string
	for i, status := range m.status {
		if status == nil {
			why, _ := explain(m.errs[i])
			away = append(away, fmt.Sprintf("%s (%v)", m.endpoints[i], why))
			continue
		}
		there++
		leader = max(leader, status.Leader)
	}
	f := store.Finding{Check: "majority", Found: fmt.Sprintf("%d of %d members respond", there, m.total)}
	if len(away) > 0 {
		f.Found += ", and not " + strings.Join(away, ", ")
	}
	switch need := m.total/2 + 1; {
	case leader == 0:
		f.Level = store.Fail
		f.Found += "; there is no leader"
		f.Why, f.Fix = "without a leader no lock is granted or renewed", "start the members that are away"
	case there < need:
		sessionserver.Warn(&f,
			"fewer members can be reached from here than a majority; calls may fail when the leader changes",
			"start the members that are away, or open the network to them")
	case there < m.total:
		sessionserver.Warn(&f, fmt.Sprintf("%d more may fail until no lock is granted", there-need),
			"start the members that are away; etcdctl member list --write-out=table")
	case m.total == 1:
		f.Found = "etcd has one member"
		sessionserver.Warn(&f, "while it is away no lock is granted or renewed",
			"run three members or five in production")
	case m.total%2 == 0:
		sessionserver.Warn(&f, "an even number of members survives no more failures than one fewer, and is slower",
			"add a member or remove one")
	}
	return f
}

// versions reports the versions of the members.
func (m *members) versions() store.Finding {
	var all []string
	for _, status := range m.status {
		if status != nil && !slices.Contains(all, status.Version) {
			all = append(all, status.Version)
		}
	}
	f := store.Finding{Check: "version", Found: "etcd " + strings.Join(all, ", ")}
	if len(all) > 1 {
		sessionserver.Warn(&f, "members of different versions are meant for the time of an upgrade only",
			"upgrade the members that are older")
	}
	return f
}

// alarms reports alarms, and how full the database is.
func (s *Store) alarms(ctx context.Context, m *members) store.Finding {
	var size, quota int64
	for _, status := range m.status {
		if status != nil {
			size, quota = max(size, status.DbSize), max(quota, status.DbSizeQuota)
		}
	}
	f := store.Finding{Check: "alarms", Found: fmt.Sprintf("none; the database has %d MiB", size>>20)}
	within, cancel := context.WithTimeout(ctx, examineWithin)
	defer cancel()
	var raised []string
	list, err := s.etcd.client.AlarmList(within)
	if err == nil {
		for _, alarm := range list.Alarms {
			raised = append(raised, alarm.Alarm.String())
		}
	} else {
		for _, status := range m.status {
			raised = append(raised, status.GetErrors()...)
		}
	}
	switch {
	case len(raised) > 0:
		f.Level, f.Found = store.Fail, strings.Join(raised, ", ")
		f.Why = "with NOSPACE etcd refuses writes: no lock is granted; with CORRUPT its members disagree"
		f.Fix = "etcdctl endpoint status; etcdctl compact REVISION; etcdctl defrag --cluster; etcdctl alarm disarm"
	case quota > 0 && size > quota/10*8:
		f.Found += fmt.Sprintf(" of %d", quota>>20)
		sessionserver.Warn(&f, "when the database is full etcd refuses writes: no lock is granted",
			"etcdctl compact REVISION; etcdctl defrag --cluster; set --auto-compaction-retention")
	}
	return f
}

// space counts the keys of this tenant, and those that no lease removes.
func (s *Store) space(ctx context.Context) store.Finding {
	f := store.Finding{Check: "keys"}
	own := strings.TrimSuffix(s.keys.id, "id")
	within, cancel := context.WithTimeout(ctx, examineWithin)
	defer cancel()
	const most = 2000
	read, _, err := s.etcd.read(within, clientv3.OpGet(own, clientv3.WithPrefix(), clientv3.WithLimit(most)))
	if err != nil {
		why, _ := explain(err)
		f.Found = "the keys cannot be listed: " + why.Error()
		sessionserver.Warn(&f, "holdfast ls needs that; locks do not",
			"etcdctl role grant-permission ROLE --prefix=true readwrite "+own)
		return f
	}
	var foreign, permanent []string
	for _, kv := range read.kvs(0) {
		switch key := string(kv.Key); {
		case key == s.keys.id:
		case !strings.HasPrefix(key, s.keys.queues) && !strings.HasPrefix(key, s.keys.sessions):
			foreign = append(foreign, key)
		case kv.Lease == 0:
			permanent = append(permanent, key)
		}
	}
	f.Found = fmt.Sprintf("%d keys below %s, all of them known and under a lease", len(read.kvs(0)), own)
	switch {
	case len(permanent) > 0:
		f.Found = fmt.Sprintf("%d keys below %s have no lease, such as %s", len(permanent), own,
			store.Quote(permanent[0]))
		sessionserver.Warn(&f, "they were written by hand, and never expire: such a claim blocks its name for ever",
			"etcdctl del KEY")
	case len(foreign) > 0:
		f.Found = fmt.Sprintf("%d keys below %s are not Holdfast's, such as %s", len(foreign), own,
			store.Quote(foreign[0]))
		sessionserver.Warn(&f, "another program writes where locks are kept", "give it another prefix")
	}
	return f
}
