//go:build !linux

package rediswire

import "net"

// newSocket returns conn: see socket_linux.go.
func newSocket(conn net.Conn) net.Conn { return conn }

// wakeMonitor does nothing: every system call wakes the monitor.
func wakeMonitor() {}
