package cli

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/holdfast-go/holdfast/internal/printable"
	"github.com/holdfast-go/holdfast/redlock"
	"github.com/holdfast-go/holdfast/store"
)

// clockTolerance is how wrong a node's clock must be to be reported. Locks do not need it to be right, but operators
// do.
const clockTolerance = time.Second

func votes(nodes []redlock.NodeHealth) (n int) {
	for i := range nodes {
		if nodes[i].State == redlock.Voting {
			n++
		}
	}
	return n
}

func majority(nodes []redlock.NodeHealth) int { return len(nodes)/2 + 1 }

// writeNodes writes one row for each node. What a node reports about itself is made printable.
func writeNodes(w io.Writer, nodes []redlock.NodeHealth) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "NODE\tSTATE\tMARK\tTOOK\tVERSION\tREMARKS")
	for i := range nodes {
		n := &nodes[i]
		mark, version := "?", "?"
		if n.Mark > 0 {
			mark = strconv.FormatUint(n.Mark, 10)
		}
		if n.Version != "" {
			version = shown(n.Version)
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%v\t%s\t%s\n", shown(n.Address), n.State, mark, brief(n.Latency), version,
			printable.Line(strings.Join(remarks(n), "; ")))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "%d of %d nodes vote, and %d are needed.\n", votes(nodes), len(nodes), majority(nodes))
	return err
}

// remarks returns what operators should know of a node.
func remarks(n *redlock.NodeHealth) (all []string) {
	switch n.State {
	case redlock.Failing:
		if n.Err != nil {
			all = append(all, n.Err.Error())
		}
	case redlock.Quarantined:
		all = append(all, fmt.Sprintf("it was restarted or lost its data: no vote for %v", rounded(n.NoVoteFor)))
	case redlock.Rejoining:
		all = append(all, "it votes again with the next lock")
	case redlock.Fresh:
		all = append(all,
			fmt.Sprintf("it is new or has lost its data: no vote for %v from its first use", rounded(n.NoVoteFor)))
	case redlock.Voting:
	}
	if n.TrustedFor > 0 {
		all = append(all, fmt.Sprintf("a restart within %v is trusted", rounded(n.TrustedFor)))
	}
	if n.Ahead >= clockTolerance {
		all = append(all, fmt.Sprintf("its clock is %v ahead", rounded(n.Ahead)))
	}
	if n.Ahead <= -clockTolerance {
		all = append(all, fmt.Sprintf("its clock is %v behind", rounded(-n.Ahead)))
	}
	return append(all, n.Warnings...)
}

// brief returns a latency with the precision to print it with.
func brief(d time.Duration) time.Duration {
	if d < time.Millisecond {
		return d.Round(time.Microsecond)
	}
	return rounded(d)
}

// What --json writes of nodes. It is described in docs/cli.md: fields are added, never changed.
type (
	nodesJSON struct {
		Store    string     `json:"store"`
		Votes    int        `json:"votes"`
		Majority int        `json:"majority"`
		Nodes    []nodeJSON `json:"nodes"`
	}
	nodeJSON struct {
		Address   string   `json:"address"`
		State     string   `json:"state"`
		Mark      string   `json:"mark,omitempty"` // passes 2^53 some day, as tokens do
		WaitMS    int64    `json:"wait_ms"`
		TrustedMS int64    `json:"trusted_ms"`
		AheadMS   int64    `json:"ahead_ms"`
		TookMS    float64  `json:"took_ms"`
		Version   string   `json:"version,omitempty"`
		Doubts    []string `json:"doubts,omitempty"`
		Error     string   `json:"error,omitempty"`
	}
)

func newNodesJSON(at store.Location, nodes []redlock.NodeHealth) nodesJSON {
	all := nodesJSON{at.String(), votes(nodes), majority(nodes), make([]nodeJSON, len(nodes))}
	for i := range nodes {
		n := &nodes[i]
		j := nodeJSON{
			Address: n.Address, State: n.State.String(),
			WaitMS: n.NoVoteFor.Milliseconds(), TrustedMS: n.TrustedFor.Milliseconds(), AheadMS: n.Ahead.Milliseconds(),
			TookMS:  float64(n.Latency.Microseconds()) / 1000,
			Version: n.Version, Doubts: n.Warnings,
		}
		if n.Mark > 0 {
			j.Mark = strconv.FormatUint(n.Mark, 10)
		}
		if n.Err != nil {
			j.Error = n.Err.Error()
		}
		all.Nodes[i] = j
	}
	return all
}
