package fence

import (
	"context"
	_ "embed" // for the script
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/holdfast-go/holdfast"
)

// A Scripter is a Redis client that can run a script: redisstore.Scripts for rueidis, redisstore/goredis.Scripts for go-redis, or
// a few lines around another. An interface, because a program that writes to Redis has its own client.
type Scripter interface {
	// Eval runs a script on the master, as EVAL does. The text of an error that Redis answers with must be kept, and nothing
	// as an answer is nil. A client that repeats by itself what was not answered may write twice: a fence does not mind, but a
	// counter would.
	Eval(ctx context.Context, script string, keys, args []string) (any, error)
}

// A Key is a fence kept in a key of Redis, beside the data that it guards. It has no state of its own: two with the same
// name are the same fence. The key holds the newest token, as [Pad] writes it, and never expires: one that is deleted, or
// evicted by a server whose maxmemory-policy takes any key, is a fence that is reset (see [Key.SetFloor]).
//
// In a cluster the fence and what it guards must lie on one node, so all of the keys have one hash tag, as in
// "{account:7}:fence" and "{account:7}:balance".
//
// It is as durable as Redis is. A failover to a replica that lagged behind can lose the last raise, with the last writes; the
// next holder raises it again.
type Key struct {
	Redis Scripter
	Name  string // the key itself
}

//go:embed key.lua
var keyScript string

// Enter raises the fence to token, or refuses it with a *StaleError. A new holder calls it before its first read. From
// then on, whoever held before it is refused.
func (k Key) Enter(ctx context.Context, token holdfast.Token) error {
	_, err := k.Do(ctx, token, "", nil)
	return err
}

// Do checks and raises the fence and runs the script, in one step: nothing else happens in Redis meanwhile. The script has
// its keys and arguments in KEYS and ARGV, as with EVAL, and what it returns is the result:
//
//	key.Do(ctx, token, `return redis.call('SET', KEYS[1], ARGV[1])`, []string{"{account:7}:balance"}, "90")
//
// It returns a *StaleError if nothing was done. A script that fails half-way has done what came before, as always in
// Redis. After any other error it is not known whether it was done.
func (k Key) Do(ctx context.Context, token holdfast.Token, script string, keys []string, args ...string) (any, error) {
	if err := checkName(k.Name); err != nil {
		return nil, err
	}
	raise := "raise"
	if token.Shared() {
		raise = "check"
	}
	answer, err := k.eval(ctx, keyScript+script, slices.Concat(keys, []string{k.Name}), slices.Concat(args, []string{Pad(token), raise}))
	if err == nil {
		return answer, nil
	}
	if _, text, ok := strings.Cut(err.Error(), "HOLDFASTSTALE "); ok {
		if seen, bad := unpad(text[:min(padded, len(text))]); bad == nil {
			return nil, &StaleError{Token: token, Seen: seen}
		}
	}
	return nil, k.failed(ctx, err)
}

// Seen is the newest exclusive token that passed, or the floor that was set; 0 if there was none.
func (k Key) Seen(ctx context.Context) (holdfast.Token, error) {
	if err := checkName(k.Name); err != nil {
		return 0, err
	}
	answer, err := k.eval(ctx, "return redis.call('GET', KEYS[1]) or ''", []string{k.Name}, nil)
	if err != nil {
		return 0, k.failed(ctx, err)
	}
	text, ok := answer.(string)
	if ok && text == "" {
		return 0, nil
	}
	seen, err := unpad(text)
	if err != nil {
		return 0, k.failed(ctx, err)
	}
	return seen, nil
}

// SetFloor makes the fence refuse everything older than token. It is for operators who replace a store and know the
// highest token of the old one. It can also lower the fence, and with 0 reset it: then a late writer of before passes, so
// make sure that there is none.
func (k Key) SetFloor(ctx context.Context, token holdfast.Token) error {
	if err := checkName(k.Name); err != nil {
		return err
	}
	if _, err := k.eval(ctx, "return redis.call('SET', KEYS[1], ARGV[1])", []string{k.Name}, []string{Pad(token)}); err != nil {
		return k.failed(ctx, err)
	}
	return nil
}

func (k Key) eval(ctx context.Context, script string, keys, args []string) (any, error) {
	if k.Redis == nil {
		return nil, fmt.Errorf("%w: a fence.Key without its Redis", holdfast.ErrBadOption)
	}
	if err := ctx.Err(); err != nil { // a lease tells the truth when it is asked
		return nil, err
	}
	return k.Redis.Eval(ctx, script, keys, args)
}

// failed says which fence could not be asked and, if the context has ended, why.
func (k Key) failed(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil && !errors.Is(err, cause) {
		err = errors.Join(err, cause)
	}
	if strings.Contains(err.Error(), "CROSSSLOT") {
		err = fmt.Errorf("in a cluster all keys must have the hash tag of the fence: %w", err)
	}
	return &holdfast.Error{Op: "fence", Name: k.Name, Store: "Redis", Err: err}
}
