package report

// A Verdict is what the checks of a run say together.
type Verdict string

// The verdicts.
const (
	// Held means that each check has judged events, and none has found a violation. It is no proof that there are none.
	Held Verdict = "held"
	// Broken means that a check has found a violation, which is a proof.
	Broken Verdict = "broken"
	// Undecided means that nothing was found, but that a check has judged nothing, or that there is no check.
	Undecided Verdict = "undecided"
)

// Verdict computes the verdict from the checks. Those for calibration have no part in it.
func (r *Run) Verdict() Verdict {
	checks, empty := 0, 0
	for _, c := range r.Checks {
		switch {
		case c.Calibration:
			continue
		case len(c.Findings) > 0:
			return Broken
		case c.Judged == 0:
			empty++
		}
		checks++
	}
	if checks == 0 || empty > 0 {
		return Undecided
	}
	return Held
}

// Violations returns the number of findings of all checks but those for calibration.
func (r *Run) Violations() int {
	n := 0
	for _, c := range r.Checks {
		if !c.Calibration {
			n += len(c.Findings)
		}
	}
	return n
}
