package report

import (
	"cmp"
	"strings"

	"github.com/holdfast-go/holdfast/lab/history"
)

// compareWorkers orders workers by process, client and owner.
func compareWorkers(a, b history.Who) int {
	return cmp.Or(compareNames(a.Process, b.Process), compareNames(a.Client, b.Client), compareNames(a.Owner, b.Owner))
}

// compareNames orders names as people do: a number in a name counts as one, so that worker 2 comes before worker 10.
func compareNames(a, b string) int {
	for a != "" && b != "" {
		m, restA := leadingNumber(a)
		n, restB := leadingNumber(b)
		switch {
		case m != "" && n != "":
			m, n = strings.TrimLeft(m, "0"), strings.TrimLeft(n, "0")
			if c := cmp.Or(cmp.Compare(len(m), len(n)), cmp.Compare(m, n)); c != 0 {
				return c
			}
			a, b = restA, restB
		case a[0] != b[0]:
			return cmp.Compare(a[0], b[0])
		default:
			a, b = a[1:], b[1:]
		}
	}
	return cmp.Compare(len(a), len(b))
}

// leadingNumber splits a text after the digits that it begins with.
func leadingNumber(s string) (digits, rest string) {
	rest = strings.TrimLeft(s, "0123456789")
	return s[:len(s)-len(rest)], rest
}
