// Package lab is the home of the fault lab: what it takes to break a lock on purpose, and to tell whether it broke.
//
//   - [github.com/holdfast-go/holdfast/lab/proxy] lies between a client and a server and does to their bytes what a
//     network does.
//   - [github.com/holdfast-go/holdfast/lab/history] records when who believed to hold what, in many processes on one
//     clock.
//   - [github.com/holdfast-go/holdfast/lab/check] finds in such a history what a lock must never allow.
//   - [github.com/holdfast-go/holdfast/lab/contend] lets real processes contend for locks while a test breaks things,
//     and checks what they believed.
//   - [github.com/holdfast-go/holdfast/lab/report] tells what happened in a run: who did what and when, which faults
//     there were, and what the checks have found.
//   - [github.com/holdfast-go/holdfast/lab/verify] puts them together for everyone's own deployment: holdfast verify.
package lab
