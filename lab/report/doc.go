// Package report describes what happened in a run of the lab.
//
// A [Run] is plain data: workers with what they did and when, faults, and the findings of each check. The code that
// carries out a run fills it in, and the verdict follows from its checks:
//
//	run := &report.Run{
//		Title: "verify", Store: masked, Command: command, Seed: seed, Started: started, Interval: interval,
//	}
//	run.AddHolds(holds) // what package history has recorded
//	run.AddCheck("mutual exclusion", "Holds that exclude each other are never believed at once.",
//		len(holds), check.Overlap(holds))
//	err := run.WriteText(os.Stdout)
//
// Names of workers and resources may contain anything: all formats show them as text, and escape what cannot be
// printed.
//
// # The page
//
// [Run.WriteHTML] writes one page with all that it needs: it works offline, and its content security policy keeps it
// from sending any request. Each worker has a row in the timeline, with its waits, holds, losses and writes; faults are
// bands across the rows, and violations are red in the rows of their holders. The timeline is a canvas that can be
// zoomed with mouse, fingers and keys. Violations, checks, faults and workers are in tables too, for readers who do not
// see it. The address #violation-3 opens the page at the third violation.
//
// # The picture
//
// [Run.WriteSVG] writes the timeline as a picture for documents, of at most 12 workers. The same run always gives the
// same picture.
//
// # JSON
//
// [Run.WriteJSON] writes one object. Its fields are those of [Run], by the names in their tags, and before them
//
//   - report: the version of the format, which is 1
//   - verdict: "held", "broken" or "undecided", see [Verdict]
//   - violations: the number of findings, without those of calibration
//
// All times are in nanoseconds since the beginning of the run. The seed and tokens are decimal strings, because they
// may be greater than 2^53. Fields may be added within a version; none is removed or changes its meaning.
package report
