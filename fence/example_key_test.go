package fence_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/redis/rueidis"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/fence"
	"github.com/holdfast-go/holdfast/redisstore"
)

// The lock, the data and its fence can be in one Redis. All keys of an account have one hash tag, for a cluster. There
// is no output to compare here, since it takes a server.
func ExampleKey() {
	ctx := context.Background()
	locks, err := holdfast.Open(ctx, "redis://127.0.0.1:6379")
	if err != nil {
		log.Fatal(err)
	}
	defer locks.Close()
	client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{"127.0.0.1:6379"}})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	account := fence.Key{Redis: redisstore.Scripts{Client: client}, Name: "{account:7}:fence"}

	err = locks.Mutex("account:7").Do(ctx, func(ctx context.Context) error {
		token, _ := holdfast.TokenFrom(ctx)
		if err := account.Enter(ctx, token); err != nil { // before the first read
			return err
		}
		// … reads, and thinks for long …
		left, err := account.Do(
			ctx,
			token,
			`return redis.call('DECRBY', KEYS[1], ARGV[1])`,
			[]string{"{account:7}:balance"},
			"10",
		)
		fmt.Println("left:", left)
		return err
	})
	if errors.Is(err, holdfast.ErrStale) {
		fmt.Println("somebody has held the lock since:", err)
	}
}
