package main

// A standing is a row, its medians, and how they compare. It is also what is written as JSON.
type standing struct {
	Name     string            `json:"name"`
	Role     role              `json:"role"`
	Site     string            `json:"site"`
	Median   metrics           `json:"median"` // of faults the sum
	ToFloor  metrics           `json:"to_floor,omitempty"`
	ToBest   metrics           `json:"to_best_peer,omitempty"`
	BestPeer map[metric]string `json:"best_peer,omitempty"` // who it was compared with
	Rounds   []metrics         `json:"rounds"`              // null for one that failed
	Failures []string          `json:"failures,omitempty"`
}

// standings compares the rows of a workload, each with those on the same kind of site.
func (r *result) standings() []standing {
	var all []standing
	for _, row := range r.rows {
		c := row.contestant
		s := standing{
			Name: c.name, Role: c.role, Site: c.on.name, Median: summarize(row.rounds),
			ToFloor: metrics{}, ToBest: metrics{}, BestPeer: map[metric]string{},
			Rounds: row.rounds, Failures: row.failures,
		}
		for _, name := range r.workload.compared {
			if f := r.floor(c.on); f != nil {
				if x, ok := ratio(row.rounds, f.rounds, name); ok {
					s.ToFloor[name] = x
				}
			}
			if best := r.bestPeer(c.on, name); best != nil {
				if x, ok := ratio(row.rounds, best.rounds, name); ok {
					s.ToBest[name], s.BestPeer[name] = x, best.contestant.name
				}
			}
		}
		all = append(all, s)
	}
	return all
}

// floor is the row of the floor of a kind of site, or nil.
func (r *result) floor(on *siteKind) *row {
	for _, row := range r.rows {
		if row.contestant.on == on && row.contestant.role == floor {
			return row
		}
	}
	return nil
}

// bestPeer is the row of the peer whose median is best by a metric, or nil.
func (r *result) bestPeer(on *siteKind, name metric) (best *row) {
	var record float64
	for _, row := range r.rows {
		value, ok := summarize(row.rounds)[name]
		if !ok || row.contestant.on != on || row.contestant.role != peer {
			continue
		}
		if best == nil || (meanings[name].better == more && value > record) ||
			(meanings[name].better == less && value < record) {
			best, record = row, value
		}
	}
	return best
}

// ratio is the median over the rounds of how much a has for each that b has. Both were measured in every round, shortly
// after each other: what slowed one round down is in both.
func ratio(a, b []metrics, name metric) (float64, bool) {
	var ratios []float64
	for i := range min(len(a), len(b)) {
		x, okA := a[i][name]
		y, okB := b[i][name]
		if okA && okB && y != 0 {
			ratios = append(ratios, x/y)
		}
	}
	return median(ratios), len(ratios) > 0
}
