package servers

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
)

// reserve keeps a port from every other test binary, or fails if one of them has it. The kernel knows the name, in no
// folder, until it is closed or this process ends.
func reserve(port int) (io.Closer, error) {
	return net.ListenPacket("unixgram", "@holdfast-port-"+strconv.Itoa(port))
}

// isPaused reports whether every thread of the process stands still.
func isPaused(pid int) (bool, error) {
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
	if err != nil {
		return false, err
	}
	for _, thread := range threads {
		stat, err := os.ReadFile(thread)
		if err != nil {
			return false, err
		}
		// The state comes after the name, which may hold anything, also spaces and brackets.
		if state := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:]); len(state) == 0 || string(state[0]) != "T" {
			return false, nil
		}
	}
	return len(threads) > 0, nil
}
