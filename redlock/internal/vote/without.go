package vote

// Without is a set of rules that are switched off. It is for controls: with it the simulation shows that it finds the
// fault that each rule prevents. Nothing else sets it.
type Without uint32

// The rules that can be switched off, and the consequence.
const (
	Quarantine    Without = 1 << iota // a node that lost its data votes at once: two hold
	AdmissionMark                     // a node whose quarantine is over votes without a mark: tickets fall
	VotersMarks                       // marks of nodes without a vote count for an admission: tickets fall
	VotesOnKeep                       // a node without a vote counts when a key is kept or repaired: two hold
	OneMaxTTL                         // clients that differ in max-ttl are not refused: two hold
	// All tries of a claim have one value, and a late release ends a later try: two hold.
	OwnValues
	TimeFromSent   // time is counted from the answer, not from the request: two hold
	Drift          // nothing is subtracted for clocks that differ in pace: two hold
	TimeAfterRaise // the time is not checked again when the ticket is drawn: tickets fall
	Continuity     // a claim that has expired is kept all the same: tickets fall
	WriteBack      // a ticket is granted before a majority has it: tickets fall
	AboveMarks     // a node accepts with the take what is not above its mark: tickets fall
	RaiseAtOwn     // a raise counts where the claim does not have the key: tickets fall
	Tombstones     // a release that overtakes its take leaves nothing behind: a key stays
	LeaveAgain     // a take that arrives after all is not released again: a key stays
	RepeatLeave    // a release is sent once: a key stays
	LeaveFailed    // a release goes only where the key is known to be: a key stays
	Jitter         // all pause equally long: votes are split forever
)

// Has reports whether all of some rules are off.
func (w Without) Has(some Without) bool { return w&some == some }
