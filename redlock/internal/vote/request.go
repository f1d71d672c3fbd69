package vote

import (
	"slices"
	"time"
)

// An Op is the operation of a request. Each is one script in production and one method of Node here.
type Op uint8

// The operations of a node.
const (
	Take  Op = iota + 1 // set the key, if it is free
	Keep                // move the key's end, and set it again if it is missing
	Leave               // delete the key, if it is the value's
	Raise               // give the key its ticket, and raise the mark to it
	Look                // return the holder of the key, and the state of the node
	Admit               // end a quarantine that is over, with the highest mark of a majority
	Init                // let a fresh node vote at once: for operators
	Trust               // trust the next restart: for operators
	Break               // delete the key of a ticket: for operators
)

// opNames are the names of the scripts.
var opNames = [...]string{
	Take: "take", Keep: "keep", Leave: "leave", Raise: "raise", Look: "look", Admit: "admit", Init: "init",
	Trust: "trust", Break: "break",
}

// String returns the name of the script.
func (o Op) String() string { return opNames[o] }

// A Request goes to one node. Fields that an Op does not name are ignored by it.
type Request struct {
	Op     Op
	MaxTTL time.Duration // all: the deployment's, as this client knows it

	Key   string        // Take, Keep, Leave, Raise, Look, Break
	Value string        // Take, Keep, Leave, Raise: unique for each try of each claim
	TTL   time.Duration // Take, Keep: how long the key lives; Leave, Break: the tombstone
	// Take: the one that is proposed, 0 for none; Raise: likewise; Keep: the claim's; Break: whose; Admit: a majority's
	// highest mark
	Ticket  uint64
	Bury    bool    // Leave: with a tombstone, since a Take or Keep of this value may still be on its way
	Tell    bool    // Leave: publish that the lock is free, whether or not its key was there
	Episode Episode // Admit: the quarantine to end
}

// A Code is the kind of an answer.
type Code uint8

// The answers of a node.
const (
	Failed Code = iota // no answer: the node is down, unresponsive, read-only, out of memory, and so on
	// Take: the key is set, or was set by this value before. Init, Admit, Trust, Raise, Break: done
	Granted
	Denied   // Take, Keep: another value is there. Look: some value is there
	NoVote   // Take, Raise: the node has no vote
	Buried   // Take, Keep: the value has left, or was broken
	Kept     // Keep: the key was there
	Repaired // Keep: the key was missing, and is set again
	Left     // Leave: the key is not there, at least not with this value
	Absent   // Look: there is no key. Raise: not of this value; Break: not of this ticket
	Mismatch // all: the node belongs to a deployment with another max-ttl
	Newer    // all: the node's record is of a newer format
	TooHigh  // Raise: the ticket is too far ahead of the node's clock
	Refused  // Init: the node has a record. Admit: not in quarantine, not over yet, or another one
)

// codeNames are the words with which the scripts answer, except the first.
var codeNames = [...]string{
	Failed: "failed", Granted: "granted", Denied: "denied", NoVote: "novote", Buried: "buried", Kept: "kept",
	Repaired: "repaired", Left: "left", Absent: "absent", Mismatch: "mismatch", Newer: "newer", TooHigh: "toohigh",
	Refused: "refused",
}

// String returns the word with which the scripts answer.
func (c Code) String() string { return codeNames[c] }

// ParseCode returns the Code of a word of a script. ok is false if there is none.
func ParseCode(word string) (c Code, ok bool) {
	i := slices.Index(codeNames[:], word)
	return Code(max(i, 0)), i > 0
}

// An Answer is the answer of a node to a request.
type Answer struct {
	Code Code

	Votes   bool          // whether the node has a vote; in all but Mismatch, Newer and Failed
	Mark    uint64        // the highest ticket known there, before the request
	Episode Episode       // without a vote: which quarantine this is
	Wait    time.Duration // without a vote: how much longer the quarantine lasts; 0: it is over, and a mark is needed

	Holder string        // Denied: the value that is there
	Ticket uint64        // Denied: its ticket, 0 if it has none yet. Take: the key's, if one was accepted
	Left   time.Duration // Denied: how long it lives if it is not kept; less than 0: forever
	MaxTTL time.Duration // Mismatch: the node's own
	Unsent bool          // Failed: the request certainly never reached the node, and never will
	Err    error         // Failed: the reason, for messages; package redlock sets and reads it
}

// NeedsMark reports whether the quarantine of the node is over and it waits to be admitted.
func (a *Answer) NeedsMark() bool {
	return !a.Votes && a.Episode != Episode{} && a.Wait == 0
}

// An Episode identifies one quarantine of one node. A mark that was collected for one ends no other.
type Episode struct {
	Run   string        // of the server that began it
	Since time.Duration // since 1970, by the node's clock
}

// A Send is a request to a node. The answer is passed to the machine that sent it, with Node and Seq.
type Send struct {
	Node    int
	Seq     uint64
	Request Request
}
