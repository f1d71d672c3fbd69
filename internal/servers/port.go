package servers

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"strconv"
	"sync"
)

// The ports that are picked. From 32768 on, the kernel gives them to outgoing connections.
const (
	firstPort  = 10000
	endOfPorts = 32768
)

// taken holds the ports of this process's servers, also while a server is stopped and its ports look free. Each is
// reserved too, so that no other test binary takes it: sentinels and replicas would find a stranger where they look for
// one of theirs.
var taken = struct {
	sync.Mutex
	reservations map[int]io.Closer // by port
}{reservations: map[int]io.Closer{}}

// pickPorts takes n ports that are free now. Somebody else may be quicker to use one: whoever starts a server on
// them tries again then. They are given back with freePorts.
func pickPorts(n int) ([]int, error) {
	taken.Lock()
	defer taken.Unlock()
	var ports []int
	for range 1000 {
		if len(ports) == n {
			return ports, nil
		}
		if port := firstPort + rand.IntN(endOfPorts-firstPort); take(port) {
			ports = append(ports, port)
		}
	}
	giveBack(ports)
	return nil, fmt.Errorf("no %d free ports from %d to %d", n, firstPort, endOfPorts-1)
}

// take takes a port, if it is free and nobody's. The caller has locked taken.
func take(port int) bool {
	if taken.reservations[port] != nil {
		return false
	}
	reservation, err := reserve(port)
	if err != nil {
		return false
	}
	if !isFree(port) {
		_ = reservation.Close()
		return false
	}
	taken.reservations[port] = reservation
	return true
}

func freePorts(ports []int) {
	taken.Lock()
	defer taken.Unlock()
	giveBack(ports)
}

// giveBack ends what take began. A port that a test made up was never taken.
func giveBack(ports []int) {
	for _, port := range ports {
		if reservation := taken.reservations[port]; reservation != nil {
			_ = reservation.Close()
		}
		delete(taken.reservations, port)
	}
}

// isFree says whether nobody listens on port.
func isFree(port int) bool {
	l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	return err == nil && l.Close() == nil
}
