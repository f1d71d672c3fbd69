package verify

import (
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"time"
)

// A Strike is one fault of a schedule.
type Strike struct {
	Fault  string
	At     time.Duration // after the beginning of the run
	For    time.Duration // how long it lasts
	Worker int           // its target, if that is a worker
	Which  int           // chooses among the servers, registers or directions that may be its target
}

// schedule returns the strikes of a run of this length. It is a function of its arguments: the same arguments make the
// same schedule. Every fault happens once before any is repeated, and one ends before the next begins. The first is the
// pause of a writer to the register without a fence, if that is among them: so that a short run is calibrated too.
func schedule(seed uint64, length, ttl time.Duration, workers int, faults []fault) []Strike {
	r := rand.New(rand.NewPCG(seed, uint64(workers))) //nolint:gosec // it must be the same again
	var strikes []Strike
	var turn []fault
	for at := min(time.Second, length/10); ; {
		if len(faults) == 0 {
			return strikes
		}
		if len(turn) == 0 {
			turn = append(turn, faults...)
			r.Shuffle(len(turn), func(i, j int) { turn[i], turn[j] = turn[j], turn[i] })
			if i := slices.IndexFunc(turn, isCalibration); i > 0 && len(strikes) == 0 {
				turn[0], turn[i] = turn[i], turn[0]
			}
		}
		next := turn[0]
		turn = turn[1:]
		s := Strike{
			Fault: next.name, At: at, For: next.lasts(r, ttl).Truncate(time.Millisecond),
			Worker: r.IntN(workers), Which: r.IntN(1 << 10),
		}
		if len(strikes) == 0 && isCalibration(next) {
			s.Which = unfenced
		}
		if s.At+s.For > length {
			return strikes
		}
		strikes = append(strikes, s)
		at = (s.At + s.For + between(r, ttl/4, ttl)).Truncate(time.Millisecond)
	}
}

// isCalibration reports whether a fault makes a register without a fence lose an update.
func isCalibration(f fault) bool { return f.name == pauseWriter }

// between returns a random duration between the two.
func between(r *rand.Rand, from, to time.Duration) time.Duration {
	if to <= from {
		return from
	}
	return from + time.Duration(r.Int64N(int64(to-from)))
}

// fromSeed derives a seed for this name from another one.
func fromSeed(seed uint64, name string) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(name)) // it never fails
	return seed ^ h.Sum64()
}
