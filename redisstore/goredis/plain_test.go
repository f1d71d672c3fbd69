package goredis_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/fence"
	"github.com/holdfast-go/holdfast/internal/servers"
	"github.com/holdfast-go/holdfast/internal/testkit"
	"github.com/holdfast-go/holdfast/redisstore"
	"github.com/holdfast-go/holdfast/redisstore/goredis"
)

// A client that holds a lock as its program always did excludes plain mode on the same key, and the other way round.
func TestNewPlain(t *testing.T) {
	client := redis.NewClient(&redis.Options{Addr: servers.Redis(t).Addr()})
	defer client.Close()
	s, err := goredis.New(t.Context(), client, redisstore.WithPlainMode(), redisstore.WithPrefix("lock:"))
	testkit.Must(t, err)
	locks := holdfast.New(s)
	defer locks.Close()
	if ok, err := client.SetNX(t.Context(), "lock:shared", "my value", time.Minute).Result(); !ok || err != nil {
		t.Fatal(ok, err)
	}
	_, err = locks.Mutex("shared").TryLock(t.Context())
	locked, ok := errors.AsType[*holdfast.LockedError](err)
	if !ok || !strings.Contains(locked.Holder.String(), "my value") {
		t.Errorf("TryLock of what the program holds: %v", err)
	}
	testkit.Must(t, client.Del(t.Context(), "lock:shared").Err())
	lease := testkit.Lock(t, locks, "shared")
	if ok, err := client.SetNX(t.Context(), "lock:shared", "my value", time.Minute).Result(); ok || err != nil {
		t.Errorf("SET NX of what Holdfast holds: %v, %v", ok, err)
	}
	testkit.Check(t, lease.Unlock(t.Context()))
	ring := redis.NewRing(&redis.RingOptions{})
	defer ring.Close()
	if _, err := goredis.New(t.Context(), ring, redisstore.WithPlainMode()); !errors.Is(err, holdfast.ErrUnsupported) {
		t.Errorf("a ring: %v", err)
	}
}

func TestFenceKey(t *testing.T) {
	client := redis.NewClient(&redis.Options{Addr: servers.Redis(t).Addr()})
	defer client.Close()
	key := fence.Key{Redis: goredis.Scripts{Client: client}, Name: "{stock}:fence"}
	const late, token = holdfast.Token(8 << 8), holdfast.Token(9 << 8)
	if answer, err := key.Do(t.Context(), token, `return redis.call('GET', KEYS[1])`,
		[]string{"{stock}"}); answer != nil ||
		err != nil {
		t.Errorf("a script that finds nothing: %v, %v", answer, err)
	}
	answer, err := key.Do(t.Context(), token, `return redis.call('INCRBY', KEYS[1], ARGV[1])`, []string{"{stock}"}, "7")
	if answer != int64(7) || err != nil {
		t.Errorf("a write: %v, %v", answer, err)
	}
	_, err = key.Do(t.Context(), late, `return redis.call('SET', KEYS[1], ARGV[1])`, []string{"{stock}"}, "0")
	if stale, ok := errors.AsType[*fence.StaleError](err); !ok || stale.Token != late || stale.Seen != token {
		t.Errorf("a late write: %v", err)
	}
	if stock, err := client.Get(t.Context(), "{stock}").Int(); stock != 7 || err != nil {
		t.Errorf("after it the stock is %v, %v", stock, err)
	}
}
