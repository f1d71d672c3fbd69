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
// reserved too, so that no other test binary uses it: sentinels and replicas would otherwise connect to a server of
// another test.
var taken = struct {
	sync.Mutex
	reservations map[int]io.Closer // by port
}{reservations: map[int]io.Closer{}}

// pickPorts reserves n ports that are free now. Another process may still use one first; then the caller must try again
// with others. freePorts releases them.
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

// take reserves a port, if it is free and not reserved. The caller has locked taken.
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

// freePorts makes ports available to other servers.
func freePorts(ports []int) {
	taken.Lock()
	defer taken.Unlock()
	giveBack(ports)
}

// giveBack releases a port that take reserved. It ignores a port that was never reserved.
func giveBack(ports []int) {
	for _, port := range ports {
		if reservation := taken.reservations[port]; reservation != nil {
			_ = reservation.Close()
		}
		delete(taken.reservations, port)
	}
}

// isFree reports whether no process listens on port.
func isFree(port int) bool {
	l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	return err == nil && l.Close() == nil
}
