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
