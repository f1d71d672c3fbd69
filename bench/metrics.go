package main

// A metric is something that is reported. Its text is its key in JSON.
type metric string

// Metrics are the values of one measurement. One that does not apply is not there.
type metrics map[metric]float64

// The metrics of locking.
var (
	throughput    = newMetric("ops_per_s", "locks/s", more, 0)
	cycleP50      = newMetric("lock_unlock_p50_us", "lock+unlock p50 µs", less, 1) // the time in Acquire and in Release
	cycleP99      = newMetric("lock_unlock_p99_us", "lock+unlock p99 µs", less, 1)
	waitP50       = newMetric("wait_p50_us", "wait p50 µs", less, 1) // the time in Acquire
	waitP99       = newMetric("wait_p99_us", "wait p99 µs", less, 1)
	evenP50       = newMetric("wait_p50_us_workers_alike", "alike p50 µs", less, 1) // where each worker counts alike
	evenP99       = newMetric("wait_p99_us_workers_alike", "alike p99 µs", less, 1)
	fairShare     = newMetric("least_most", "least/most served", more, 2)
	handoverRate  = newMetric("handovers_per_s", "hand-overs/s", more, 0) // from one process to another
	handoverP50   = newMetric("handover_p50_us", "hand-over p50 µs", less, 1)
	handoverP99   = newMetric("handover_p99_us", "hand-over p99 µs", less, 1)
	inUse         = newMetric("in_use_percent", "in use %", more, 1)                 // of the time that it is held
	beforeP50     = newMetric("lock_unlock_p50_us_before", "before p50 µs", less, 1) // before a node was stopped
	afterP50      = newMetric("lock_unlock_p50_us_after", "after p50 µs", less, 1)
	afterP99      = newMetric("lock_unlock_p99_us_after", "after p99 µs", less, 1)
	afterToBefore = newMetric("after_before", "after/before", less, 2)               // of the medians
	clientPerOp   = newMetric("client_cpu_us_per_op", "client CPU µs/lock", less, 1) // of all workers
	serverPerOp   = newMetric("server_cpu_us_per_op", "server CPU µs/lock", less, 1)
	callsPerOp    = newMetric("calls_per_op", "calls/lock", less, 1) // what clients sent
	overlapCount  = newFault("overlaps", "overlaps")
	disorderCount = newFault("token_disorders", "token disorders")
	errorCount    = newFault("errors", "errors")
)

// The metrics of leases that are held for a ttl.
var (
	acquireRate    = newMetric("acquired_per_s", "acquired/s", more, 0)
	goroutinesEach = newMetric("goroutines_per_lease", "goroutines/lease", less, 4)
	bytesEach      = newMetric("bytes_per_lease", "bytes/lease", less, 0)
	clientCPU      = newMetric("client_cpu_s_per_ttl", "client CPU s/ttl", less, 2)
	serverCPU      = newMetric("server_cpu_s_per_ttl", "server CPU s/ttl", less, 2)
	calls          = newMetric("calls_per_ttl", "calls/ttl", less, 0)
	serverCommands = newMetric("commands_per_ttl", "commands/ttl", less, 0) // also those inside scripts
	lostCount      = newFault("lost", "lost")
)

// A meaning says how a metric is shown and compared.
type meaning struct {
	title    string
	better   direction
	fault    bool // it must be 0, and its rounds are added up
	decimals int
}

type direction int

const (
	neither direction = iota
	more
	less
)

// meanings are those of all metrics.
var meanings = map[metric]meaning{}

// newMetric makes a metric: its key in JSON, and how it is shown and compared.
func newMetric(key metric, title string, better direction, decimals int) metric {
	meanings[key] = meaning{title: title, better: better, decimals: decimals}
	return key
}

// newFault makes a metric of what must not happen.
func newFault(key metric, title string) metric {
	meanings[key] = meaning{title: title, fault: true}
	return key
}

// summarize makes one value of the rounds' for each metric: the median, and of faults the sum.
func summarize(rounds []metrics) metrics {
	values := map[metric][]float64{}
	for _, round := range rounds {
		for name, v := range round {
			values[name] = append(values[name], v)
		}
	}
	summary := metrics{}
	for name, vs := range values {
		if !meanings[name].fault {
			summary[name] = median(vs)
			continue
		}
		for _, v := range vs {
			summary[name] += v
		}
	}
	return summary
}

// faults is how often happened what must not.
func (m metrics) faults() (sum float64) {
	for name, v := range m {
		if meanings[name].fault {
			sum += v
		}
	}
	return sum
}
