// Package history records waits for locks, the times for which holders believed that they held them, and the operations
// under them, by one clock for all processes of a machine.
//
// # Only what is certain
//
// A recorded hold is a part of the real belief, never more: it begins after the lock was granted and ends before the
// lock is released, and at both instants the holder's belief was checked. If two holds overlap in a history, they
// therefore overlapped in reality, however the processes were paused and delayed while they recorded them.
//
// # Files
//
// Each process writes a file of its own, in JSON lines. The first line has the process and its clock:
//
//	{"history":2,"process":"worker 1","clock":"CLOCK_MONOTONIC","boot":"5b2e…"}
//	{"event":"wait","id":1,"at":81234467890,"client":"a","owner":"o","resource":"x","kind":"exclusive"}
//	{"event":"arrive","id":2,"at":81234477890,"acked":81234547890,"resource":"x","kind":"exclusive","ticket":10}
//	{"event":"grant","id":1,"at":81234557890,"token":"2560"}
//	{"event":"begin","id":3,"at":81234567890,"client":"a","resource":"x","kind":"exclusive","token":"2560"}
//	{"event":"call","id":4,"at":81234577890,"owner":"o","resource":"register","token":"2560","update":true}
//	{"event":"sent","id":4,"at":81234587890,"old":"v1","new":"v2"}
//	{"event":"done","id":4,"at":81234597890}
//	{"event":"still","id":3,"at":81234667890,"until":81244567890}
//	{"event":"end","id":3,"at":81234767890}
//
// A wait ends with "grant" or "give up", an operation on a register with "done" or "refuse". Format 1, which is read
// too, had only "begin", "still" and "end".
//
// A line is written with one call, when its event happens. What a process has written survives its death. A hold
// without an end was believed at least until the last line about it.
//
// # The clock
//
// On Linux it is CLOCK_MONOTONIC, which all processes of a machine share and which cannot be set. Elsewhere it is the
// wall clock, and a history is only as good as that: if the clock is set meanwhile, holds may seem to overlap that did
// not, or the reverse. Histories with different clocks, or from different boots, are not merged.
package history
