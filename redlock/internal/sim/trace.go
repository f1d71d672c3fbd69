package sim

import (
	"fmt"

	"github.com/holdfast-go/holdfast/redlock/internal/vote"
)

// What is counted, so that schedules show that something happens in them.
const (
	grants = iota
	renewals
	lost
	retries
	faulty
	gone
	pushes
	losses
	restores
	restarts
	trusts
	pauses
	deaths
	drops
	doubles
	crawls
	admissions
	clockSteps
	breaks
	counters
)

// Counted are the names of what a Report has Seen.
var Counted = [counters]string{
	"grants", "renewals", "lost votes", "tries again", "calls without a majority", "claims gone", "pushes", "data lost",
	"old data restored", "restarts with data", "trusted restarts", "pauses", "deaths", "messages lost",
	"messages doubled", "messages that crawl", "admissions", "clocks set back", "locks broken",
}

func who(e *event) string {
	switch {
	case e.actor != nil:
		return e.actor.label
	case e.client != nil:
		return name(e.client.number)
	}
	return "operator"
}

func describe(r *vote.Request) string {
	s := r.Op.String()
	if r.Op == vote.Raise || r.Op == vote.Admit {
		s += fmt.Sprint(" ", r.Ticket)
	} else if r.Value != "" {
		s += " " + r.Value
	}
	if r.Bury {
		s += " with a tombstone"
	}
	return s
}

func tell(a *vote.Answer) string {
	s := a.Code.String()
	if a.Code == vote.Denied {
		s += " by " + a.Holder
	}
	switch {
	case a.Votes:
		s += fmt.Sprint(", mark ", a.Mark)
	case a.NeedsMark():
		s += ", needs a mark"
	case a.Wait > 0:
		s += fmt.Sprint(", no vote for ", a.Wait)
	}
	return s
}
