package redlock

import (
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/redlock/internal/vote"
)

// TestAdmissionNews: whoever waits for a node to get its vote is not told that it failed to. He would ask again and
// again, as long as others use the store.
func TestAdmissionNews(t *testing.T) {
	t.Parallel()
	s := newStage(t, time.Second, 0).bid.store
	s.admission = newAdmission(s)
	served := vote.Answer{Code: vote.Refused, Episode: vote.Episode{Run: "run", Since: 1}}
	for name, c := range map[string]struct {
		answer vote.Answer
		news   bool
	}{
		"granted":                  {granted, true},
		"voting already":           {vote.Answer{Code: vote.Refused, Votes: true, Mark: 1}, true},
		"out of memory":            {failing, false},
		"in a quarantine of later": {served, false},
	} {
		news := s.admission.nextVote()
		s.admission.answer(&nodeRequest{s.admission, vote.Send{Seq: 99, Request: vote.Request{Op: vote.Admit}}},
			c.answer)
		told := false
		select {
		case <-news:
			told = true
		default:
		}
		if told != c.news {
			t.Errorf("%s: told is %v", name, told)
		}
	}
}
