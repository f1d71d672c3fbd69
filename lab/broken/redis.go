package broken

import (
	"context"
	"crypto/rand"
	"fmt"
	"net"
	"slices"
	"sync"
	"time"

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

// overRedis makes the opener of a lock that needs a connection to the first of the servers.
func overRedis(wrap func(*redis, *part) lock) opener {
	return func(ctx context.Context, p *part) (lock, error) {
		r, err := dialRedis(ctx, p.Addrs[0])
		if err != nil {
			return nil, err
		}
		return wrap(r, p), nil
	}
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

// Eval runs a script, for a fence.
func (r *redis) Eval(_ context.Context, script string, keys, args []string) (any, error) {
	all := []any{"EVAL", script, len(keys)}
	for _, arg := range slices.Concat(keys, args) {
		all = append(all, arg)
	}
	return r.do(all...)
}

// A setNXPX takes the lock and gives it an expiry in one command, and its value tells whose it is.
type setNXPX struct {
	*redis
	key, value string
	ttl        time.Duration
	until      time.Time // counted from when the request was sent
}

func newSetNXPX(r *redis, p *part) *setNXPX {
	return &setNXPX{redis: r, key: p.Lock, value: rand.Text(), ttl: p.TTL}
}

func (l *setNXPX) tryLock(context.Context) (bool, error) {
	l.until = time.Now().Add(l.ttl)
	return l.ok("SET", l.key, l.value, "NX", "PX", ms(l.ttl))
}

// The scripts that compare the owner and act, in one step.
const (
	deleteIfMine = `if redis.call("GET", KEYS[1]) == ARGV[1] then return redis.call("DEL", KEYS[1]) end return 0`
	renewIfMine  = `if redis.call("GET", KEYS[1]) == ARGV[1] then return redis.call("PEXPIRE", KEYS[1],
		ARGV[2]) end return 0`
)

// unlock deletes the key if it is still this client's.
func (l *setNXPX) unlock(context.Context) error {
	_, err := l.do("EVAL", deleteIfMine, 1, l.key, l.value)
	return err
}

// holdfastRedis is Holdfast's lock on the first of the servers.
func holdfastRedis(p *part) (url string) {
	return fmt.Sprintf("redis://%s?ttl=%v", p.Addrs[0], p.TTL)
}
