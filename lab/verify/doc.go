// Package verify tests whether locks hold on a deployment, by trying to break them. Worker processes take locks of
// every type and record what they believed. Meanwhile verify causes faults: workers are paused for longer than their
// ttl, killed, cut off and starved. Package check then checks what was recorded.
//
//	run, err := verify.Run(ctx, &verify.Plan{Store: url, Time: 30 * time.Second, Command: command})
//	if run.Verdict() == report.Broken { … }
//
// # The targets of faults
//
// On the user's own deployment, faults affect only the workers, and their connections through proxies on loopback. The
// servers get ordinary requests for locks, with names that begin with [Prefix]. When Run returns, nothing of that is
// left in the store. With Plan.Servers, verify starts servers of its own, and breaks them as well.
//
// # Faults beyond the guarantees
//
// If a store promises nothing under a fault (docs/guarantees.md), the fault happens only if Plan.Faults names it.
// Findings while it lasts, and for a while after it, are reported separately from violations.
//
// # The schedule
//
// Which faults happen, when, for how long and to which target is a function of the seed, the time, the ttl, the faults
// and the number of workers: the same plan has the same schedule. What the workers do in between depends on chance and
// on the machine.
//
// # Registers
//
// A lock alone cannot stop a holder that is paused before its write. The workers therefore also update two registers
// that verify keeps in its own process: one behind a fence, which must lose no update under any fault, and one without,
// which shows that the faults do harm.
package verify
