// Package testkit has what the tests of several stores share. It knows no server: a store is a store.Store or a URL.
//
//   - Must and Await end a test that cannot continue, at once or after Patience. Check reports an error and continues.
//   - Claim, Join, Keep, Ask and Leave use a store directly. Tour makes every call of a store.
//   - CheckFault, Calls and RefuseURLs check the errors of a store.
//   - Ways and Links are a client's connections to several servers, which a test can delay or cut.
//   - A Scene is a set of processes that contend for locks while a test injects a fault.
//   - Believer breaks a store on purpose, so that a test can show that it would detect that.
//   - A Journal records which clients believe to hold one lock while a test plays an exact schedule.
//
// Only tests import it.
package testkit

import (
	"testing"
	"time"
)

// Patience is how long something may take that must happen, on a busy machine.
const Patience = 30 * time.Second

// Must ends the test if err is not nil.
func Must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Check reports err as an error of the test if it is not nil.
func Check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Error(err)
	}
}

// Await returns once isSo reports true, and ends the test if that takes longer than Patience.
func Await(t testing.TB, what string, isSo func() bool) {
	t.Helper()
	if !Soon(Patience, isSo) {
		t.Fatalf("%s: not after %v", what, Patience)
	}
}

// Soon reports whether isSo becomes true within d. It asks at least once.
func Soon(d time.Duration, isSo func() bool) bool {
	for deadline := time.Now().Add(d); !isSo(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			return false
		}
	}
	return true
}
