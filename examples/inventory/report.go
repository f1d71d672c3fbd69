package main

import (
	"fmt"
	"io"
	"math"
	"strings"
	"time"
)

// printAccount writes what came of one round.
func printAccount(out io.Writer, a *account) {
	fmt.Fprintf(out, "in stock  %6d\n", a.before)
	fmt.Fprintf(out, "sold      %6d  in %v, %.0f a second\n", a.sold, a.took.Round(time.Millisecond), a.rate())
	fmt.Fprintf(out, "sold out  %6d  buyers came too late\n", a.refused)
	fmt.Fprintf(out, "errors    %6d", a.failed)
	if a.failed > 0 {
		fmt.Fprintf(out, "  the first: %s", oneLine(a.failure))
	}
	fmt.Fprintln(out)
	fmt.Fprintf(out, "left      %6d  after %d writes\n", a.left, a.writes)
}

// printRounds writes both rounds side by side, and why they differ.
func printRounds(out io.Writer, without, with *account) {
	const columns = "%-14s%8v%8v%8v%13v%8v%8v\n"
	fmt.Fprintf(out, columns, "", "stock", "sold", "left", "oversold by", "errors", "sold/s")
	row := func(name string, a *account) {
		fmt.Fprintf(out, columns, name, a.before, a.sold, a.left, a.oversold(), a.failed, math.Round(a.rate()))
	}
	row("without lock", without)
	row("with lock", with)
	fmt.Fprint(out, `
Without the lock, several shops read the same count, and their sales count as one.
With the lock, the next sale reads only after the last one wrote. It is slower, because
sales of one item come one after the other. Other items have other locks.
`)
}

// oneLine writes an error in one line. Joined errors have several.
func oneLine(err error) string { return strings.ReplaceAll(err.Error(), "\n", "; ") }
