package fence

import (
	"context"
	_ "embed" // for the script
	"fmt"
	"slices"
	"strings"

	"github.com/holdfast-go/holdfast"
)

// A Scripter is a Redis client that can run a script: redisstore.Scripts for rueidis, redisstore/goredis.Scripts for
// go-redis, or a few lines around another client. It is an interface because a program that writes to Redis has its
// own.
type Scripter interface {
	// Eval runs a script on the master, as EVAL does. It keeps the text of an error that Redis responds with, and
	// returns nil for an empty response. A client that repeats a request without a response may write twice: that is
	// harmless for the fence, but not for a counter.
	Eval(ctx context.Context, script string, keys, args []string) (any, error)
}

// A Key is a fence kept in a key of Redis, beside the data that it guards. It has no state of its own: two Keys with
// the same name are the same fence. The key holds the newest token, as [Pad] writes it, and never expires. If it is
// deleted, or evicted by a server whose maxmemory-policy allows that, the fence is reset (see [Key.SetFloor]).
//
// In a cluster the fence and the data must be on one node, so all of the keys have one hash tag, as in
// "{account:7}:fence" and "{account:7}:balance".
//
// It is as durable as Redis is. A failover to a replica that lagged behind can lose the last raise, together with the
// last writes; the next holder raises it again.
type Key struct {
	Redis Scripter
	Name  string // the key itself
}

//go:embed key.lua
var keyScript string

// Enter raises the fence to token, or returns a *StaleError. A new holder calls it before its first read. From then on
// the tokens of earlier holders are refused.
func (k Key) Enter(ctx context.Context, token holdfast.Token) error {
	_, err := k.Do(ctx, token, "", nil)
	return err
}

// Do checks and raises the fence and runs the script, in one step: nothing else happens in Redis meanwhile. The script
// finds its keys and arguments in KEYS and ARGV, as with EVAL, and its result is returned:
//
//	key.Do(ctx, token, `return redis.call('SET', KEYS[1], ARGV[1])`, []string{"{account:7}:balance"}, "90")
//
// It returns a *StaleError if nothing was done. A script that fails half-way has done what came before the failure, as
// always in Redis. After any other error it is not known whether the script has run.
func (k Key) Do(ctx context.Context, token holdfast.Token, script string, keys []string, args ...string) (any, error) {
	if err := checkName(k.Name); err != nil {
		return nil, err
	}
	raise := "raise"
	if token.Shared() {
		raise = "check"
	}
	result, err := k.eval(ctx, keyScript+script,
		slices.Concat(keys, []string{k.Name}), slices.Concat(args, []string{Pad(token), raise}))
	if err == nil {
		return result, nil
	}
	if _, text, ok := strings.Cut(err.Error(), "HOLDFASTSTALE "); ok {
		if seen, bad := unpad(text[:min(padded, len(text))]); bad == nil {
			return nil, &StaleError{Token: token, Seen: seen}
		}
	}
	return nil, k.failed(ctx, err)
}

// Seen returns the newest exclusive token that passed, or the floor that was set, or 0 if there was none. It returns an
// error if the name is invalid, Redis fails, or the key does not hold a token.
func (k Key) Seen(ctx context.Context) (holdfast.Token, error) {
	if err := checkName(k.Name); err != nil {
		return 0, err
	}
	result, err := k.eval(ctx, "return redis.call('GET', KEYS[1]) or ''", []string{k.Name}, nil)
	if err != nil {
		return 0, k.failed(ctx, err)
	}
	text, ok := result.(string)
	if ok && text == "" {
		return 0, nil
	}
	seen, err := unpad(text)
	return seen, k.failed(ctx, err)
}

// SetFloor makes the fence refuse every token below this one. It is for operators who replace a store and know the
// highest token of the old one. It can also lower the fence, and reset it with 0. Late writes of earlier holders then
// pass, so make sure that there are none.
func (k Key) SetFloor(ctx context.Context, token holdfast.Token) error {
	if err := checkName(k.Name); err != nil {
		return err
	}
	_, err := k.eval(ctx, "return redis.call('SET', KEYS[1], ARGV[1])", []string{k.Name}, []string{Pad(token)})
	return k.failed(ctx, err)
}

// eval runs a script. It returns an error without calling Redis if Redis is not set or ctx is done.
func (k Key) eval(ctx context.Context, script string, keys, args []string) (any, error) {
	if k.Redis == nil {
		return nil, fmt.Errorf("%w: a fence.Key without its Redis", holdfast.ErrBadOption)
	}
	if err := ctx.Err(); err != nil { // a lease that is over ends its context when it is checked
		return nil, err
	}
	return k.Redis.Eval(ctx, script, keys, args)
}

func (k Key) failed(ctx context.Context, err error) error {
	if err != nil && strings.Contains(err.Error(), "CROSSSLOT") {
		err = fmt.Errorf("in a cluster all keys must have the hash tag of the fence: %w", err)
	}
	return failed(ctx, "Redis", k.Name, err)
}
