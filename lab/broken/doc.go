// Package broken is the ladder of broken locks: locks as textbooks and blog posts show them, each with the schedule
// that breaks it, the check that detects it, and the lock of Holdfast under the same schedule.
//
//	lab := &broken.Lab{Command: self} // starts this program again, as a player: see Perform
//	defer lab.Close()
//	rung, _ := broken.Find("blind-delete")
//	outcome, err := lab.Play(ctx, rung, 1)
//	outcome.Broken.Findings   // what the check found
//	outcome.Holdfast.Findings // nothing
//
// # Schedules are deterministic
//
// A schedule is a sequence of steps, each of which waits until the one before has happened. Proxies between each player
// and the server hold messages back, processes are stopped and killed, servers are killed and promoted. The seed varies
// the rest: how long a ttl is, how long a client is slow, which of several nodes fails, which client is first. A
// schedule breaks its lock with every seed.
//
// # How to read it
//
// Each file has one family of locks. A lock has tryLock and unlock, a few lines each, as they are commonly published.
// Below it is the rung: the schedule and its description. The other files carry out the schedules:
//
//   - rung.go: what a rung is, and the list of all
//   - play.go: a rung is played twice, with the broken lock and with Holdfast's
//   - stage.go, player.go: one play, and what a player in it does
//   - schedules.go: the schedules that several rungs share
//   - process.go: a player that is a process of its own, to be stopped and killed
//   - lock.go, belief.go: the lock of a player, and what the player believes
//   - redis.go, file.go: what the locks of several rungs share
//   - judge.go, text.go, json.go, report.go: the outcome
package broken
