package servers

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// A clusterView is how a node sees its cluster.
type clusterView struct {
	ok    bool                   // all slots are served
	nodes map[string]clusterNode // by their addresses
}

// A clusterNode is how a node sees another, or itself.
type clusterNode struct {
	alive  bool
	master string   // the address of the master that it copies, or empty
	slots  []string // such as 0-5460
}

// clusterView returns the node's view of its cluster.
func (r *RedisServer) clusterView() (view clusterView, err error) {
	info, err := r.ask("CLUSTER", "INFO")
	if err != nil {
		return view, err
	}
	answer, err := r.ask("CLUSTER", "NODES")
	if err != nil {
		return view, err
	}
	view.ok = strings.Contains(fmt.Sprint(info), "cluster_state:ok\r\n")
	view.nodes, err = parseNodes(fmt.Sprint(answer))
	return view, err
}

// parseNodes parses the response to CLUSTER NODES. In a line there are the id, the address, flags, the id of the
// master, four things of no interest here or the state of the link, and the slots.
func parseNodes(answer string) (map[string]clusterNode, error) {
	addrs := map[string]string{"-": ""} // by id
	var lines [][]string
	for line := range strings.Lines(answer) {
		fields := strings.Fields(line)
		if len(fields) < 8 {
			return nil, fmt.Errorf("no line of CLUSTER NODES: %q", line)
		}
		addrs[fields[0]], _, _ = strings.Cut(fields[1], "@")
		lines = append(lines, fields)
	}
	nodes := map[string]clusterNode{}
	for _, fields := range lines {
		flags := strings.TrimPrefix(fields[2], "myself,")
		node := clusterNode{
			alive:  (flags == "master" || flags == "slave") && fields[7] == "connected",
			master: addrs[fields[3]],
			slots:  fields[8:],
		}
		node.slots = slices.DeleteFunc(node.slots, func(s string) bool { return s[0] == '[' }) // one on its way
		nodes[addrs[fields[0]]] = node
	}
	return nodes, nil
}

// owner is the address of the node that has a slot.
func (v clusterView) owner(slot int) string {
	for addr, node := range v.nodes {
		for _, slots := range node.slots {
			low, high, _ := strings.Cut(slots+"-"+slots, "-") // one slot alone has no end
			first, err1 := strconv.Atoi(low)
			last, err2 := strconv.Atoi(strings.Split(high, "-")[0])
			if err1 == nil && err2 == nil && first <= slot && slot <= last {
				return addr
			}
		}
	}
	return ""
}

// replicaOf is the address of the node that copies another.
func (v clusterView) replicaOf(master string) string {
	for addr, node := range v.nodes {
		if node.alive && node.master == master {
			return addr
		}
	}
	return ""
}

// roles returns which node copies which, and which has which slots.
func (v clusterView) roles() string {
	var roles []string
	for addr, node := range v.nodes {
		roles = append(roles, fmt.Sprintf("%s copies %q has %v", addr, node.master, node.slots))
	}
	slices.Sort(roles)
	return strings.Join(roles, ", ")
}
