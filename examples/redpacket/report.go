package main

import (
	"fmt"
	"io"
)

// printReport writes what came of all clicks, and then of the money.
func printReport(out io.Writer, p *party, came *outcome, found *audit) {
	how := "with a lock"
	if p.noLock {
		how = "without a lock"
	}
	fmt.Fprintf(out, "A red packet of %s in %d shares. %d users click twice each, %s.\n\n",
		money(p.cents), p.shares, p.users, how)
	row := func(name string, value any) { fmt.Fprintf(out, "%-24s%8v\n", name, value) }
	row("drew a share", came.drew)
	row("came too late", came.late)
	row("had drawn before", came.again)
	row("were told: busy", came.busy)
	row("errors", came.failed)
	fmt.Fprintln(out)
	row("in the packet at first", money(found.total))
	row("paid", money(found.paid))
	row("left", money(found.left))
	row("users who drew twice", found.users)
	row("shares drawn twice", found.shares)
}

// money writes cents.
func money(cents int) string { return fmt.Sprintf("%d.%02d", cents/100, cents%100) }
