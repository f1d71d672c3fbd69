package servers

import (
	"fmt"
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

// taken holds the ports of this process's servers, also while a server is stopped and its ports look free.
var taken = struct {
	sync.Mutex
	ports map[int]bool
}{ports: map[int]bool{}}

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
		port := firstPort + rand.IntN(endOfPorts-firstPort)
		if !taken.ports[port] && isFree(port) {
			taken.ports[port] = true
			ports = append(ports, port)
		}
	}
	for _, port := range ports {
		delete(taken.ports, port)
	}
	return nil, fmt.Errorf("no %d free ports from %d to %d", n, firstPort, endOfPorts-1)
}

func freePorts(ports []int) {
	taken.Lock()
	defer taken.Unlock()
	for _, port := range ports {
		delete(taken.ports, port)
	}
}

// isFree says whether nobody listens on port.
func isFree(port int) bool {
	l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	return err == nil && l.Close() == nil
}
