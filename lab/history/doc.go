// Package history records when who believed to hold what, by one clock for all processes of a machine.
//
// # Only what is sure
//
// A recorded hold is a part of the real belief, never more: it begins after the lock was granted and ends before it is
// given back, and at both moments the holder was asked whether it still believed. So two holds that overlap in a
// history have overlapped in truth, however the processes were paused and delayed while they wrote it down.
//
// # Files
//
// Each process writes a file of its own, in JSON lines. The first line says who writes and by which clock:
//
//	{"history":1,"process":"worker 1","clock":"CLOCK_MONOTONIC","boot":"5b2e…"}
//	{"event":"begin","id":1,"at":81234567890,"client":"a","owner":"o","resource":"x","kind":"exclusive","token":"2560"}
//	{"event":"still","id":1,"at":81234667890}
//	{"event":"end","id":1,"at":81234767890}
//
// A line is written with one call, when its event happens. What a process has written is there when it is killed. A
// hold that has no end was believed at least until the last line about it.
//
// # The clock
//
// On Linux it is CLOCK_MONOTONIC, which all processes of a machine share and nobody can set. Elsewhere it is the wall
// clock, and a history is worth only as much as that: if it is set meanwhile, holds seem to overlap that did not, or
// the other way round. Histories by different clocks, or from different boots, are not merged.
package history
