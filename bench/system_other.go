//go:build !unix

package main

import (
	"context"
	"errors"
	"time"
)

func openFlock(context.Context, string, time.Duration) (locker, error) {
	return nil, errors.New("flock(2) is not on this system")
}

func cpuTime() (time.Duration, error) {
	return 0, errors.New("how much processor time a process has used cannot be had on this system")
}
