// Package rediskey has what redlock and the plain mode of redisstore share: their locks are single keys, as other
// libraries set them. Only a claim's own client knows that it waits. Whoever releases a lock publishes that on a
// channel.
//
//   - value.go: what the key of a lock holds; the queues of redisstore also have its Owners
//   - subscriptions.go: the channels that a client is subscribed to
package rediskey

import (
	"fmt"
	"strings"

	"github.com/holdfast-go/holdfast/store"
)

// own is what Holdfast's own keys begin with.
const own = "holdfast:{"

// Check refuses the key of a lock that could be one of Holdfast's own. Where names the kind of store in the error.
func Check(where, key string) error {
	if strings.HasPrefix(key, own) {
		return fmt.Errorf("%w: in %s a name is a key, and what begins with %q is holdfast's own",
			store.ErrBadName, where, own)
	}
	return nil
}
