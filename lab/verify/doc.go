// Package verify tells whether locks hold on a deployment, by trying to break them. Worker processes take locks in all the
// ways that there are and write down what they believed. Meanwhile faults are done to them: they are paused for longer
// than their leases last, killed, cut off and starved. Package check then judges what was written down.
//
//	run, err := verify.Run(ctx, &verify.Plan{Store: "redis://127.0.0.1:6379", Time: 30 * time.Second, Command: command})
//	if run.Verdict() == report.Broken { … }
//
// # What is done to whom
//
// On a deployment of the user's, faults are done to the workers alone, and to the connections that they have through
// proxies on loopback; its servers are only asked for locks, under names that begin with [Prefix]. When Run returns,
// nothing of that is left in the store. With Plan.Servers, the servers too are verify's own, and are broken as well.
//
// # What must hold, and what may not
//
// A fault under which a store promises nothing (docs/guarantees.md) is played only if Plan.Faults names it. What is found
// while it lasts, and for a while after it, is told apart from violations.
//
// # The schedule
//
// What is broken when, for how long and at whom is a function of the seed, the time, the ttl, the faults and the number of
// workers: the same plan has the same schedule. What the workers do in between is up to chance and to the machine.
//
// # Registers
//
// A lock alone cannot stop a holder that is paused before its write. So the workers also update two registers that verify
// keeps in its own process: one behind a fence, which must lose no update whatever happens, and one without, which
// shows that the faults would have hurt.
package verify
