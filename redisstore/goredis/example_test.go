package goredis_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/servers"
	"github.com/holdfast-go/holdfast/redisstore/goredis"
)

// The store connects as the client does. The client remains the program's.
func ExampleNew() {
	ctx := context.Background()
	client := redis.NewClient(&redis.Options{Addr: os.Getenv("REDIS_ADDRESS")})
	defer client.Close()
	s, err := goredis.New(ctx, client)
	if err != nil {
		log.Fatal(err)
	}
	locks := holdfast.New(s)
	defer locks.Close() // the client stays open
	err = locks.Mutex("nightly report").Do(ctx, func(ctx context.Context) error {
		return client.Incr(ctx, "reports").Err()
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("the client is still open:", client.Ping(ctx).Err() == nil)
}

// TestExamples runs the example on a server.
func TestExamples(t *testing.T) {
	server := servers.Redis(t)
	t.Setenv("REDIS_ADDRESS", server.Addr())
	ExampleNew()
	if reports, err := server.Do("GET", "reports"); err != nil || fmt.Sprint(reports) != "1" {
		t.Errorf("reports: %v, %v", reports, err)
	}
}
