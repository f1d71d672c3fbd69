package cli

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/doctor"
	"github.com/holdfast-go/holdfast/internal/printable"
	"github.com/holdfast-go/holdfast/store"
)

// examineWithin bounds an examination.
const examineWithin = time.Minute

func newDoctor(a *app) *cobra.Command {
	var asJSON, strict bool
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Check whether a store is fit for locks",
		Long: `Check whether a store is fit for locks: whether it can be reached and used, how fast it is, which
settings of its servers cost guarantees, and whether there are leftovers or deadlocks. Each check is
one line with OK, WARN or FAIL, and below it why it matters and what to type.

It changes nothing, except that it acquires one lock under a random name and releases it at once.
Like every command that opens a store, it creates missing tables.

It exits with 69 if a check fails, and with --strict with 1 if one warns.`,
		Example: `  holdfast doctor
  holdfast doctor --store redis://10.0.0.5:6379
  holdfast doctor --strict                       # in a pipeline
  holdfast doctor --json | jq -r '.findings[] | select(.level != "OK") | .check'`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.doctor(cmd.Context(), asJSON, strict)
		},
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "write JSON")
	cmd.Flags().BoolVar(&strict, "strict", false, "exit with 1 if a check warns")
	return cmd
}

// doctorJSON is what doctor --json writes.
type doctorJSON struct {
	doctor.Report
	Level store.Level `json:"level"` // the worst
}

// doctor examines the store and writes the findings.
func (a *app) doctor(ctx context.Context, asJSON, strict bool) error {
	at, err := a.locateToWrite()
	if err != nil {
		return err
	}
	a.silent = true // what stores log is among the findings
	ctx, cancel := context.WithTimeout(ctx, examineWithin)
	defer cancel()
	var found func(store.Finding)
	if !asJSON {
		found = func(f store.Finding) { writeFinding(a.stdout, f) }
	}
	report, err := doctor.Run(ctx, at, found)
	if err != nil {
		return &exitError{exitUsage, &holdfast.Error{Op: "open", Err: err}}
	}
	if asJSON {
		if err := writeJSON(a.stdout, doctorJSON{report, report.Worst()}); err != nil {
			return err
		}
	}
	switch worst := report.Worst(); {
	case worst == store.Fail:
		return exitWith(exitStore, "the store is not fit for locks: a check failed")
	case worst == store.Warn && strict:
		return exitWith(exitNotHeld, "a check warns")
	}
	return nil
}

// writeFinding writes a finding as text. Control characters in what servers report are made printable.
func writeFinding(w io.Writer, f store.Finding) {
	fmt.Fprintf(w, "%-4s  %-12s  %s\n", f.Level, f.Check, printable.Line(f.Found))
	if f.Level == store.OK {
		return
	}
	for _, more := range []struct{ what, text string }{{"why", f.Why}, {"fix", f.Fix}} {
		if more.text != "" {
			fmt.Fprintf(w, "      %12s  %s\n", more.what+":", printable.Line(more.text))
		}
	}
}
