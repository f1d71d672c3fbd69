package redlock_test

import (
	"testing"

	"github.com/holdfast-go/holdfast/lab/contend"
)

// TestStampede: no node has more time to answer than by default.
func TestStampede(t *testing.T) {
	f := newFreshFleet(t, 5)
	f.query = ""
	f.init()
	contend.Stampede(t, contend.Herd{URL: f.url(""), Alone: 500, Processes: 50})
}
