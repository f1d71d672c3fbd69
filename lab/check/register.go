package check

import (
	"math"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/holdfast-go/holdfast/lab/history"
)

// Register finds registers that are not linearizable or lost an acknowledged update. An update is one operation: it
// reads a value and replaces it, as if at one instant between its first request and its last response. An operation
// that was refused changed nothing. If the end of an operation is unknown, it happened if another operation read its
// value, and is ignored otherwise. Every update writes a value that no other writes.
//
// The operations of a register are checked in parts that no operation spans, one after the other, so that every part is
// small enough to be decided. A part that is not decided within ten seconds is a finding too.
func Register(operations []history.Operation) []Finding {
	sorted := sortedBy(operations, func(o history.Operation) history.Instant { return o.Begin })
	names, groups := grouped(sorted, func(o history.Operation) string { return o.Register })
	return searchEach(names, 0, func(s *search) { register(s, known(groups[s.resource])) })
}

// LostUpdates counts the updates that were overwritten by one that had not read them. Of all updates that read the same
// value, only one can be correct.
func LostUpdates(operations []history.Operation) (lost int) {
	_, groups := grouped(operations, func(o history.Operation) string { return o.Register })
	for _, group := range groups {
		read := map[string]bool{}
		for _, o := range known(group) {
			if o.Update && read[o.Old] {
				lost++
			}
			if o.Update {
				read[o.Old] = true
			}
		}
	}
	return lost
}

// known returns the operations that happened. One with an unknown end happened before the end of the first operation
// that read its value.
func known(operations []history.Operation) []history.Operation {
	seenBy := map[string]history.Instant{} // by value: when the first operation that read it ended
	for _, o := range operations {
		end := o.End
		if o.Outcome == history.Unknown {
			end = math.MaxInt64
		}
		if first, seen := seenBy[o.Old]; !seen || end < first {
			seenBy[o.Old] = end
		}
	}
	var happened []history.Operation
	for _, o := range operations {
		switch seen, ok := seenBy[o.New]; {
		case o.Outcome == history.Acknowledged:
			happened = append(happened, o)
		case o.Outcome == history.Unknown && o.New != "" && ok:
			o.End = max(seen, o.Begin)
			happened = append(happened, o)
		}
	}
	return happened
}

// register checks the operations of one register, sorted by beginning.
func register(s *search, operations []history.Operation) {
	forks(s, operations)
	value := ""
	for _, part := range parts(operations) {
		if len(s.found) > 0 {
			return // the parts after one that cannot be explained cannot be explained either
		}
		switch porcupine.CheckOperationsTimeout(updates(value), asPorcupine(part), decideWithin) {
		case porcupine.Ok:
			value = last(value, part)
		case porcupine.Illegal:
			s.note(Linearizable, span(part), nil,
				"%d operations, from %v to %v, cannot be put in an order that explains what they read",
				len(part), part[0], part[len(part)-1])
		case porcupine.Unknown:
			s.note(Undecided, span(part), nil, "whether %d operations can be explained was not decided within %v",
				len(part), decideWithin)
		}
	}
}

// decideWithin is how long the check of a part may take. Parts are small, and every value is written once, so that it
// takes milliseconds unless something is very wrong.
const decideWithin = 10 * time.Second

// forks finds updates that read the same value: the later overwrote the earlier.
func forks(s *search, operations []history.Operation) {
	first := map[string]history.Operation{}
	for _, o := range operations {
		if !o.Update || s.full() {
			continue
		}
		a, again := first[o.Old]
		if !again {
			first[o.Old] = o
			continue
		}
		s.note(LostUpdate, span([]history.Operation{a, o}), []history.Who{a.Who, o.Who},
			"two updates have replaced the same value: %v, and %v", a, o)
	}
}

// partSize is how many operations a part has at least, unless it is the last.
const partSize = 200

// parts divides operations at instants at which none is under way.
func parts(operations []history.Operation) [][]history.Operation {
	var all [][]history.Operation
	begin := 0
	var busy history.Instant // until when an earlier operation lasts
	for i, o := range operations {
		if i-begin >= partSize && o.Begin > busy {
			all = append(all, operations[begin:i])
			begin = i
		}
		busy = max(busy, o.End)
	}
	if begin < len(operations) {
		all = append(all, operations[begin:])
	}
	return all
}

// last returns the value of a register after a part that can be explained: the one that was written and not replaced.
func last(value string, part []history.Operation) string {
	replaced := map[string]bool{}
	for _, o := range part {
		if o.Update {
			replaced[o.Old] = true
		}
	}
	for _, o := range part {
		if o.Update && !replaced[o.New] {
			return o.New
		}
	}
	return value
}

// span returns the interval from the first beginning to the last known end.
func span(operations []history.Operation) history.Interval {
	v := operations[0].Interval
	for _, o := range operations {
		if v.Begin = min(v.Begin, o.Begin); o.End != math.MaxInt64 {
			v.End = max(v.End, o.End)
		}
	}
	return v
}

// updates returns the model of a register with this initial value: an operation reads the value and may replace it.
func updates(value string) porcupine.Model {
	return porcupine.Model{
		Init: func() any { return value },
		Step: func(state, input, _ any) (bool, any) {
			o := input.(history.Operation)
			if state != o.Old {
				return false, state
			}
			if o.Update {
				return true, o.New
			}
			return true, state
		},
	}
}

func asPorcupine(operations []history.Operation) []porcupine.Operation {
	clients := map[history.Who]int{}
	all := make([]porcupine.Operation, len(operations))
	for i, o := range operations {
		client, ok := clients[o.Who]
		if !ok {
			client = len(clients)
			clients[o.Who] = client
		}
		all[i] = porcupine.Operation{ClientId: client, Input: o, Call: int64(o.Begin), Return: int64(o.End)}
	}
	return all
}
