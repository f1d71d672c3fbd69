// Package check finds in a history of holds what a lock must never allow. Each check is a pure function of the holds.
//
// A history holds only what is sure (see package history), so a finding is a proof that the lock failed. No finding is
// no proof that it did not: what was not recorded cannot be found.
package check
