package main

// A metric is something that is reported. Its text is its key in JSON.
type metric string

// Metrics are the values of one measurement. One that does not apply is not there.
type metrics map[metric]float64

// The metrics of locking.
const (
	throughput    metric = "ops_per_s"
	cycleP50      metric = "lock_unlock_p50_us" // the time in Acquire and in Release
	cycleP99      metric = "lock_unlock_p99_us"
	waitP50       metric = "wait_p50_us" // the time in Acquire
	waitP99       metric = "wait_p99_us"
	evenP50       metric = "wait_p50_us_workers_alike" // the same where each worker counts alike
	evenP99       metric = "wait_p99_us_workers_alike"
	fairShare     metric = "least_most"
	handoverRate  metric = "handovers_per_s" // from one process to another
	handoverP50   metric = "handover_p50_us"
	handoverP99   metric = "handover_p99_us"
	inUse         metric = "in_use_percent"            // of the time somebody holds it
	beforeP50     metric = "lock_unlock_p50_us_before" // before a node was stopped
	afterP50      metric = "lock_unlock_p50_us_after"
	afterP99      metric = "lock_unlock_p99_us_after"
	afterToBefore metric = "after_before"         // of the medians
	clientPerOp   metric = "client_cpu_us_per_op" // of all workers
	serverPerOp   metric = "server_cpu_us_per_op"
	callsPerOp    metric = "calls_per_op" // what clients sent
	overlapCount  metric = "overlaps"
	disorderCount metric = "token_disorders"
	errorCount    metric = "errors"
)

// The metrics of leases that are held for a ttl.
const (
	acquireRate    metric = "acquired_per_s"
	goroutinesEach metric = "goroutines_per_lease"
	bytesEach      metric = "bytes_per_lease"
	clientCPU      metric = "client_cpu_s_per_ttl"
	serverCPU      metric = "server_cpu_s_per_ttl"
	calls          metric = "calls_per_ttl"
	serverCommands metric = "commands_per_ttl" // also those inside scripts
	lostCount      metric = "lost"
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

var meanings = map[metric]meaning{
	throughput:     {title: "locks/s", better: more},
	cycleP50:       {title: "lock+unlock p50 µs", better: less, decimals: 1},
	cycleP99:       {title: "lock+unlock p99 µs", better: less, decimals: 1},
	waitP50:        {title: "wait p50 µs", better: less, decimals: 1},
	waitP99:        {title: "wait p99 µs", better: less, decimals: 1},
	evenP50:        {title: "alike p50 µs", better: less, decimals: 1},
	evenP99:        {title: "alike p99 µs", better: less, decimals: 1},
	fairShare:      {title: "least/most served", better: more, decimals: 2},
	handoverRate:   {title: "hand-overs/s", better: more},
	handoverP50:    {title: "hand-over p50 µs", better: less, decimals: 1},
	handoverP99:    {title: "hand-over p99 µs", better: less, decimals: 1},
	inUse:          {title: "in use %", better: more, decimals: 1},
	beforeP50:      {title: "before p50 µs", better: less, decimals: 1},
	afterP50:       {title: "after p50 µs", better: less, decimals: 1},
	afterP99:       {title: "after p99 µs", better: less, decimals: 1},
	afterToBefore:  {title: "after/before", better: less, decimals: 2},
	clientPerOp:    {title: "client CPU µs/lock", better: less, decimals: 1},
	serverPerOp:    {title: "server CPU µs/lock", better: less, decimals: 1},
	callsPerOp:     {title: "calls/lock", better: less, decimals: 1},
	overlapCount:   {title: "overlaps", fault: true},
	disorderCount:  {title: "token disorders", fault: true},
	errorCount:     {title: "errors", fault: true},
	acquireRate:    {title: "acquired/s", better: more},
	goroutinesEach: {title: "goroutines/lease", better: less, decimals: 4},
	bytesEach:      {title: "bytes/lease", better: less},
	clientCPU:      {title: "client CPU s/ttl", better: less, decimals: 2},
	serverCPU:      {title: "server CPU s/ttl", better: less, decimals: 2},
	calls:          {title: "calls/ttl", better: less},
	serverCommands: {title: "commands/ttl", better: less},
	lostCount:      {title: "lost", fault: true},
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
