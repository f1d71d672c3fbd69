package servers

import (
	"io"
	"net"
	"strconv"
)

// reserve keeps a port from every other test binary, or fails if one of them has it. The kernel knows the name, in no
// folder, until it is closed or this process ends.
func reserve(port int) (io.Closer, error) {
	return net.ListenPacket("unixgram", "@holdfast-port-"+strconv.Itoa(port))
}
