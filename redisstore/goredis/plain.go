package goredis

import (
	"context"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/redisstore"
)

// NewPlain is New for plain mode: the store excludes and is excluded by other libraries on the same key.
func NewPlain(ctx context.Context, client redis.UniversalClient, options ...redisstore.Option) (*redisstore.Plain, error) {
	path, err := pathOf(client)
	if err != nil {
		return nil, err
	}
	return redisstore.ThroughPlain(ctx, path, options...)
}
