package store

import "context"

// An Examiner is implemented by a Store that can report how its servers are set up, as far as it matters for locks.
type Examiner interface {
	// Examine reads the state and the settings of the servers, and changes nothing. It reports each subject once, or
	// once for each server. What it may not read it reports as a Warn with the permission that is missing. It returns
	// within seconds, and when ctx ends, with what it has found until then. No text has a secret in it.
	Examine(ctx context.Context) []Finding
}

// A Finding is what was found out about one subject.
type Finding struct {
	Check string `json:"check"`         // the subject, as in "persistence": one of few words, for scripts
	Level Level  `json:"level"`         // how it is
	Found string `json:"found"`         // what was found
	Why   string `json:"why,omitempty"` // why that matters for locks
	Fix   string `json:"fix,omitempty"` // what to type to change it; empty if nothing needs to be done
}

// Level is the severity of a finding.
type Level uint8

// The levels of findings.
const (
	OK   Level = iota // as it should be
	Warn              // locks work, and can be lost or be slow in some event
	Fail              // locks do not work, or two clients can hold one in normal operation
)

var levels = [...]string{"OK", "WARN", "FAIL"}

// String returns OK, WARN or FAIL.
func (l Level) String() string {
	if int(l) < len(levels) {
		return levels[l]
	}
	return "unknown level"
}

// MarshalText returns what String does.
func (l Level) MarshalText() ([]byte, error) { return []byte(l.String()), nil }
