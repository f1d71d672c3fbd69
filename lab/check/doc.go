// Package check finds in a history what a lock must never allow. Each check is a pure function of what was recorded, and its
// comment says exactly what it demands: [Overlap], [Tokens], [Succession], [Arrival], [Waiting], [Progress], [Register], [Leftover].
//
// A history holds only what is sure (see package history), so a finding is a proof that the lock failed. No finding is
// no proof that it did not: what was not recorded cannot be found.
package check
