package demo

import (
	"math"
	"time"
)

// A moment is a reading of the machine's monotonic clock, which all processes share. The wall clock would do until
// somebody sets it.
type moment time.Duration

// forever is later than every other moment.
const forever = moment(math.MaxInt64)

// at is the moment of a time that was made in this process. The two clocks are read one after the other, so it reads
// again if the process was interrupted in between.
func at(t time.Time) moment {
	for {
		before := now()
		left := time.Until(t)
		if after := now(); after-before < moment(100*time.Microsecond) {
			return after + moment(left)
		}
	}
}

// A span is how long a worker believed that it was alone. On the coordinator's side it says who believed it.
type span struct {
	Begin, End moment
	worker     int
}
