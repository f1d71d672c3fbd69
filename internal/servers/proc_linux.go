package servers

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"
)

// ticksPerSecond is what the kernel counts processor time in for everybody who reads /proc, on every machine.
const ticksPerSecond = 100

// endsWithParent says whether the kernel ends a child when its parent dies.
const endsWithParent = true

// attributes puts a process at the head of a group of its own, and has it end with its parent.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// isPaused says whether every thread of the process stands still.
func isPaused(pid int) (bool, error) {
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
	if err != nil {
		return false, err
	}
	for _, thread := range threads {
		fields, err := readStat(thread)
		if err != nil {
			return false, err
		}
		if state := string(fields[0]); state != "T" {
			return false, nil
		}
	}
	return len(threads) > 0, nil
}

// cpuTime is the processor time that the process has used, in user mode and in the kernel.
func cpuTime(pid int) (time.Duration, error) {
	fields, err := readStat(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	var ticks int64
	for _, field := range fields[11:13] { // utime and stime
		n, err := strconv.ParseInt(string(field), 10, 64)
		if err != nil {
			return 0, err
		}
		ticks += n
	}
	return time.Duration(ticks) * (time.Second / ticksPerSecond), nil
}

// readStat gives the fields of a stat file from the state on. The name before them may hold anything, also spaces
// and brackets.
func readStat(path string) ([][]byte, error) {
	stat, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	if len(fields) < 13 {
		return nil, fmt.Errorf("%s has %d fields", path, len(fields))
	}
	return fields, nil
}
