// Package lab is the fault lab: packages that break locks on purpose and find out whether they failed.
//
//   - [github.com/holdfast-go/holdfast/lab/proxy] forwards bytes between a client and a server, and does to them what a
//     network does.
//   - [github.com/holdfast-go/holdfast/lab/history] records when holders believed that they held a lock, in many
//     processes on one clock.
//   - [github.com/holdfast-go/holdfast/lab/check] finds in a history what a lock must never allow.
//   - [github.com/holdfast-go/holdfast/lab/contend] lets processes contend for locks while a test causes faults, and
//     checks what they believed.
//   - [github.com/holdfast-go/holdfast/lab/report] describes a run: what each process did and when, which faults there
//     were, and what the checks found.
//   - [github.com/holdfast-go/holdfast/lab/verify] combines them for any deployment: holdfast verify.
package lab
