package demo

import (
	"fmt"
	"strconv"
	"strings"
)

// textWidth is the greatest width of a line of text.
const textWidth = 98

// introduce prints what the demo will do.
func (r *run) introduce() {
	stopping := "is stopped there (SIGSTOP) until the others have overtaken it"
	if !r.pausable {
		stopping = "is kept waiting there, since this system cannot stop a process"
	}
	r.print(fmt.Sprintf("%d processes sell %d items. A sale reads the stock, takes a payment (%v), and writes the "+
		"stock less one. In each round one process is killed in the middle of a sale, and one %s.",
		r.Workers, r.Items, payment, stopping))
	r.screen.say("")
}

// print prints a text, wrapped at textWidth.
func (r *run) print(text string) {
	line := ""
	for word := range strings.FieldsSeq(text) {
		if line != "" && len(line)+1+len(word) > textWidth {
			r.screen.say(line)
			line = ""
		}
		line = strings.TrimPrefix(line+" "+word, " ")
	}
	r.screen.say(line)
}

// columns are the columns of the table, with their widths.
var columns = []struct {
	head  string
	width int
}{
	{"", 10}, {"sold", 6}, {"oversold", 10}, {"overlapping holds", 19}, {"stale writes refused", 22}, {"sold/s", 8},
}

// tabulate prints the results of the rounds.
func (r *run) tabulate(rounds []*round) {
	var head strings.Builder
	for _, c := range columns {
		fmt.Fprintf(&head, "%*s", c.width, c.head)
	}
	r.screen.say(r.screen.style().bold(head.String()))
	for _, round := range rounds {
		r.screen.say(row(r.screen.style(), round.name, &round.account))
	}
	r.screen.say("")
}

// row returns a line of the table. A number that must be 0 is red if it is not.
func row(s style, name string, a *account) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%-*s", columns[0].width, name)
	for i, n := range []int{a.sold, a.oversold(), a.overlaps(), a.refused, int(a.rate())} {
		cell := fmt.Sprintf("%*s", columns[i+1].width, strconv.Itoa(n))
		switch head := columns[i+1].head; {
		case head != "oversold" && head != "overlapping holds":
		case n == 0:
			cell = s.good(cell)
		default:
			cell = s.bad(cell)
		}
		b.WriteString(cell)
	}
	return b.String()
}

// conclude prints what the rounds have shown.
func (r *run) conclude() {
	const first = "Without a lock, processes read the same stock and sell the same item. "
	if r.pausable {
		r.print(first +
			"The naive lock was good until its holder was stopped: it woke up, wrote over the sales of the others, " +
			"and deleted a lock that was no longer its own. With Holdfast it lost its lease while it slept, and the " +
			"fence refused its late write: nothing was sold twice.")
	} else {
		r.print(first + "The naive lock expired while its holder waited for a payment, and the next worker acquired " +
			"it. Holdfast renewed the lease meanwhile: nothing was sold twice.")
	}
	r.print("(sold/s includes the waits for locks whose holders were killed or stopped.)")
}
