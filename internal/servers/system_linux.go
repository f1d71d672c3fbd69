package servers

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
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
		fields, err := statFields(thread)
		if err != nil {
			return false, err
		}
		if fields[0] != "T" {
			return false, nil
		}
	}
	return len(threads) > 0, nil
}

// statFields reads what the kernel says of a process or thread, from its state on: the parent comes next.
func statFields(path string) ([]string, error) {
	stat, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	// They come after the name, which may hold anything, also spaces and brackets.
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	if len(fields) < 2 {
		return nil, fmt.Errorf("%s: %q", path, stat)
	}
	return fields, nil
}

// childrenOf returns the processes whose parent this one is.
func childrenOf(parent int) (pids []int, err error) {
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return nil, err
	}
	for _, stat := range stats {
		fields, err := statFields(stat)
		if err != nil || fields[1] != strconv.Itoa(parent) || fields[0] == "Z" {
			continue // a process may have ended meanwhile
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(stat)))
		if err != nil {
			return nil, err
		}
		pids = append(pids, pid)
	}
	return pids, nil
}

// isGone reports whether a process that may not be ours has ended.
func isGone(pid int) bool {
	fields, err := statFields(fmt.Sprintf("/proc/%d/stat", pid))
	return err != nil || fields[0] == "Z" || fields[0] == "X"
}

// removeSharedMemory removes a segment that a process has left behind.
func removeSharedMemory(id int) error {
	_, err := unix.SysvShmCtl(id, unix.IPC_RMID, nil)
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.EIDRM) {
		return nil // it is gone
	}
	return err
}
