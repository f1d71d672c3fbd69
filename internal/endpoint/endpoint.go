// Package endpoint has what stores have in common in how they find a server, log in to it, and are seen there.
package endpoint

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"

	"github.com/holdfast-go/holdfast/store"
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

// FileCredentials returns PasswordFile of a URL's parameter password-file, for the user of the URL. It returns nil if
// there is no such parameter.
func FileCredentials(at store.Location) (func(context.Context) (user, password string, err error), error) {
	if !at.Query.Has("password-file") {
		return nil, nil //nolint:nilnil // there need not be any
	}
	file := at.Query.Get("password-file")
	if password, _ := at.User.Password(); at.User.Username() == "" || password != "" || file == "" {
		return nil, fmt.Errorf("password-file names a file, and the URL has a user without a password, as in "+
			"%s://user@host?password-file=FILE", at.Scheme)
	}
	return PasswordFile(file), nil
}

// Process returns the host and the ID of this process, for operators.
func Process() string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	return fmt.Sprint(host, " ", os.Getpid())
}
