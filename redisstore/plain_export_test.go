package redisstore

import (
	"context"

	"github.com/holdfast-go/holdfast/store"
)

// OpenPlainThrough is OpenThrough in plain mode.
func OpenPlainThrough(ctx context.Context, at store.Location, address string) (*Plain, error) {
	s, err := OpenThrough(ctx, at, address)
	if err != nil {
		return nil, err
	}
	return newPlain(s), nil
}
