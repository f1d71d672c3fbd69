package goredis

import (
	"context"
	"errors"

	"github.com/redis/go-redis/v9"
)

// Scripts lets a fence.Key use a go-redis client, for one server, for what Sentinel watches, or for a cluster.
//
//	stock := fence.Key{Redis: goredis.Scripts{Client: client}, Name: "{stock:42}:fence"}
//
// Unless its MaxRetries is -1, go-redis repeats by itself what was not answered, and what is written may be written
// twice.
type Scripts struct{ Client redis.Scripter }

// Eval runs a script on the master that has the keys. The server is sent its text only if it does not know it yet.
func (s Scripts) Eval(ctx context.Context, script string, keys, args []string) (any, error) {
	answer, err := redis.NewScript(script).Run(ctx, s.Client, keys, args).Result()
	if errors.Is(err, redis.Nil) {
		return nil, nil
	}
	return answer, err
}
