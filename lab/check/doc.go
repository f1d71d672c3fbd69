// Package check finds in a history what a lock must never allow. Each check is a pure function of what was recorded,
// and its comment defines exactly what it requires: [Overlap], [Tokens], [Succession], [Arrival], [Waiting],
// [Progress], [Register], [Leftover].
//
// A history has only what is certain (see package history), so a finding proves that the lock failed. The absence of
// findings does not prove that it did not: what was not recorded cannot be found.
package check
