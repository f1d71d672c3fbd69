package main

// standing is a row's medians, and how they compare.
type standing struct {
	*row
	median   metrics
	toFloor  metrics
	toBest   metrics
	bestPeer map[metric]string // who it was compared with
}

// standings compares the rows of a workload, each with those on the same kind of site.
func (r *result) standings() []standing {
	var all []standing
	for _, row := range r.rows {
		s := standing{row: row, median: summarize(row.rounds), toFloor: metrics{}, toBest: metrics{}, bestPeer: map[metric]string{}}
		for _, name := range r.workload.compared {
			if f := r.floor(row.contestant.on); f != nil {
				if x, ok := ratio(row.rounds, f.rounds, name); ok {
					s.toFloor[name] = x
				}
			}
			if best := r.bestPeer(row.contestant.on, name); best != nil {
				if x, ok := ratio(row.rounds, best.rounds, name); ok {
					s.toBest[name], s.bestPeer[name] = x, best.contestant.name
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
		if best == nil || (meanings[name].better == more && value > record) || (meanings[name].better == less && value < record) {
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
