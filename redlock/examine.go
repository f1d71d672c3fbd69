package redlock

import (
	"context"
	"fmt"
	"strings"

	"github.com/holdfast-go/holdfast/internal/rediswire"
	"github.com/holdfast-go/holdfast/store"
)

var _ store.Examiner = (*Store)(nil)

// Examine implements store.Examiner: it reports which nodes vote, and how each is set up.
func (s *Store) Examine(ctx context.Context) []store.Finding {
	nodes := s.Health(ctx)
	all := []store.Finding{majorityOf(nodes)}
	each := make([][]store.Finding, len(nodes))
	s.eachNode(func(i int, n *node) {
		if nodes[i].State == Failing {
			return
		}
		ctx, cancel := context.WithTimeout(ctx, healthTimeout)
		defer cancel()
		if conn, err := n.conn(ctx); err == nil {
			e := rediswire.Examination{Node: n.address, Voter: true}
			each[i] = e.Of(ctx, conn)
		}
	})
	for i := range each {
		for _, f := range each[i] {
			f.Found = s.frame.MaskText(f.Found)
			all = append(all, f)
		}
	}
	return all
}

// majorityOf reports whether enough nodes vote.
func majorityOf(nodes []NodeHealth) store.Finding {
	var others []string
	for _, n := range nodes {
		if n.State == Voting {
			continue
		}
		about := fmt.Sprintf("%s is %s", n.Address, n.State)
		if n.Err != nil {
			about += fmt.Sprintf(" (%v)", n.Err)
		} else if n.NoVoteFor > 0 {
			about += fmt.Sprintf(" for %v", n.NoVoteFor)
		}
		others = append(others, about)
	}
	votes, need := len(nodes)-len(others), len(nodes)/2+1
	f := store.Finding{
		Check: "majority", Found: fmt.Sprintf("%d of %d nodes vote, and %d are needed", votes, len(nodes), need),
	}
	if len(others) > 0 {
		f.Found += ": " + strings.Join(others, "; ")
		f.Level = store.Warn
		f.Why = "fewer failures are left until no lock is granted"
		f.Fix = "holdfast redlock status shows the nodes; start those that are away, and run holdfast redlock init " +
			"once for new ones"
	}
	if votes < need {
		f.Level = store.Fail
		f.Why = "without a majority no lock is granted or renewed"
	}
	return f
}
