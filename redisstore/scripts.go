package redisstore

import (
	"context"
	"errors"

	"github.com/redis/rueidis"
)

// Scripts lets a fence.Key use a rueidis client, for one server or for a cluster.
//
//	stock := fence.Key{Redis: redisstore.Scripts{Client: client}, Name: "{stock:42}:fence"}
type Scripts struct{ Client rueidis.Client }

var errCrossSlot = errors.New("CROSSSLOT the keys do not have one hash tag")

// Eval runs a script on the master that has the keys. The server is sent its text only if it does not know it yet. It is
// never repeated: what was not answered may have been done.
func (s Scripts) Eval(ctx context.Context, script string, keys, args []string) (any, error) {
	if s.Client.Mode() == rueidis.ClientModeCluster {
		for _, key := range keys {
			if slotOf(key) != slotOf(keys[0]) {
				return nil, errCrossSlot // rueidis would panic
			}
		}
	}
	answer, err := rueidis.NewLuaScript(script).Exec(ctx, s.Client, keys, args).ToAny()
	if rueidis.IsRedisNil(err) {
		return nil, nil
	}
	return answer, err
}
