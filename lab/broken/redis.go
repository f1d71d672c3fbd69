package broken

import (
	"context"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/servers"
	_ "github.com/holdfast-go/holdfast/redisstore" // redis:
)

// A redis is a client's connection to a Redis server.
type redis struct {
	mu   sync.Mutex
	conn *servers.Conn
}

func dialRedis(ctx context.Context, addr string) (*redis, error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	return &redis{conn: servers.NewConn(conn, patience)}, nil
}

// do sends a command and returns its answer: a string, a number or nil. Arguments are written as fmt does.
func (r *redis) do(args ...any) (any, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	texts := make([]string, len(args))
	for i, arg := range args {
		texts[i] = fmt.Sprint(arg)
	}
	return r.conn.Do(texts...)
}

// ok sends a command and reports whether Redis answered yes: OK, or 1.
func (r *redis) ok(args ...any) (bool, error) {
	answer, err := r.do(args...)
	return answer == "OK" || answer == int64(1), err
}

func (r *redis) close() error { return r.conn.Close() }

// ms is a duration as Redis takes it.
func ms(d time.Duration) int64 { return d.Milliseconds() }

// holdfastRedis is Holdfast's lock on the first of the servers.
func holdfastRedis(p *part) (url string, options []holdfast.Option) {
	return fmt.Sprintf("redis://%s?ttl=%v", p.Addrs[0], p.TTL), nil
}
