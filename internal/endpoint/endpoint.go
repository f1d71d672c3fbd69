// Package endpoint has what stores have in common in how they find a server, log in to it, and are seen there.
package endpoint

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
)

// WithPort returns the address of a host: with this port, if it has none.
func WithPort(host, port string) string {
	if _, _, err := net.SplitHostPort(host); err == nil {
		return host
	}
	return net.JoinHostPort(strings.Trim(host, "[]"), port)
}

// WithPorts returns WithPort of several hosts.
func WithPorts(hosts []string, port string) []string {
	addresses := make([]string, len(hosts))
	for i, host := range hosts {
		addresses[i] = WithPort(host, port)
	}
	return addresses
}

// PasswordFile returns credentials that read the password from a file each time. The user is empty: it is the URL's.
// The error does not contain the file's name, which by mistake may be the password.
func PasswordFile(path string) func(context.Context) (user, password string, err error) {
	return func(context.Context) (user, password string, err error) {
		text, err := os.ReadFile(path)
		if err != nil {
			err = errors.New("the password file cannot be read")
		}
		return "", strings.TrimRight(string(text), "\r\n"), err
	}
}

// Process returns the host and the ID of this process, for operators.
func Process() string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	return fmt.Sprint(host, " ", os.Getpid())
}
