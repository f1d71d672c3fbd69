package report

// A Verdict is the combined result of the checks of a run.
type Verdict string

// The verdicts.
const (
	// Held means that each check judged events and none found a violation. It does not prove that there are none.
	Held Verdict = "held"
	// Broken means that a check found a violation, which is a proof.
	Broken Verdict = "broken"
	// Undecided means that nothing was found, but that a check judged nothing, or that there is no check.
	Undecided Verdict = "undecided"
)

// Verdict computes the verdict from the checks. Those for calibration are ignored.
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
func (r *Run) Violations() int { return len(r.violations(false)) }
