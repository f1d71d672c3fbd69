// Package broken is the ladder of broken locks: locks as textbooks and blog posts give them, each with the schedule
// that breaks it, the check that sees it, and the lock of Holdfast that goes through the very same schedule.
//
//	lab := &broken.Lab{Command: self} // starts this program again, as a player: see Perform
//	defer lab.Close()
//	rung, _ := broken.Find("blind-delete")
//	outcome, err := lab.Play(ctx, rung, 1)
//	outcome.Broken.Findings   // what the check saw
//	outcome.Holdfast.Findings // nothing
//
// # Nothing is left to luck
//
// A schedule is a sequence of steps, each of which waits until the one before has happened. Messages are held back by a
// proxy on each player's way to the server, processes are stopped and killed, servers are killed and promoted. What a
// seed varies is what is free: how long a ttl is, how long a client is slow, which of several nodes fails, who comes
// first. A schedule breaks its lock with every seed.
//
// # How to read it
//
// Each file has one family of locks. A lock has tryLock and unlock, a few lines each, as one finds them elsewhere, with
// no more than they need. Below it stands the rung: the schedule, and what is said about it. The rest is the stage:
//
//   - rung.go: what a rung is, and the list of all
//   - play.go: a rung is played twice, with the broken lock and with Holdfast's
//   - stage.go, player.go: one play, and what a player in it does
//   - schedules.go: the schedules that several rungs share
//   - process.go: a player that is a process of its own, to be stopped and killed
//   - lock.go, belief.go: what a player has in its hands, and believes
//   - redis.go, file.go: what the locks of several rungs share
//   - judge.go, text.go, json.go, report.go: what came of it
package broken
