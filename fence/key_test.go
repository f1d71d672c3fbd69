package fence_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/redis/rueidis"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/fence"
	"github.com/holdfast-go/holdfast/internal/servers"
	"github.com/holdfast-go/holdfast/internal/testkit"
	"github.com/holdfast-go/holdfast/redisstore"
)

// redis is a Redis server of its own, through a client of the program's.
func redis(t *testing.T) fence.Scripter {
	t.Helper()
	return scripts(t, servers.Redis(t).Addr())
}

func scripts(t *testing.T, addresses ...string) fence.Scripter {
	t.Helper()
	client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: addresses})
	testkit.Must(t, err)
	t.Cleanup(client.Close)
	return redisstore.Scripts{Client: client}
}

// eval runs a script behind the fence's back.
func eval(t *testing.T, db fence.Scripter, script string, keys ...string) any {
	t.Helper()
	answer, err := db.Eval(context.WithoutCancel(t.Context()), script, keys, nil)
	testkit.Check(t, err)
	return answer
}

// What is written in these tests.
const (
	set  = `return redis.call('SET', KEYS[1], ARGV[1])`
	push = `return redis.call('RPUSH', KEYS[1], ARGV[1])`
)

// Beyond 2^53 a script cannot tell a number from the next, which is why tokens are compared as text.
func TestKeyTellsLargeTokensApart(t *testing.T) {
	db := redis(t)
	const first, next = holdfast.Token(1<<62 + 256), holdfast.Token(1<<62 + 512)
	if eval(t, db, fmt.Sprintf("return tonumber('%d') == tonumber('%d') and 1 or 0", first, first+1)) != int64(1) {
		t.Error("the control tells them apart as numbers: it cannot show that text is needed")
	}
	key := fence.Key{Redis: db, Name: "large"}
	for _, token := range []holdfast.Token{first, first + 1, next} {
		testkit.Must(t, key.Enter(t.Context(), token))
	}
	wantStale(t, key.Enter(t.Context(), next-1), next-1, next)
}

// The script sees what it was given and nothing of the fence, and what it returns comes back.
func TestKeyRunsTheScriptAsItIs(t *testing.T) {
	key := fence.Key{Redis: redis(t), Name: "fence"}
	answer, err := key.Do(t.Context(), newer, `
		local token, seen, fence = 1, 2, 3 -- names that the fence has too
		return {#KEYS, #ARGV, KEYS[1], KEYS[2], ARGV[1], token + seen + fence}`, []string{"a", "b"}, "x")
	if want := []any{int64(2), int64(1), "a", "b", "x", int64(6)}; err != nil ||
		fmt.Sprint(answer) != fmt.Sprint(want) {
		t.Errorf("got %v, %v, want %v", answer, err, want)
	}
	if answer, err := key.Do(t.Context(), newer, "return redis.call('GET', KEYS[1])",
		[]string{"nothing"}); answer != nil ||
		err != nil {
		t.Errorf("a script that finds nothing gave %v, %v", answer, err)
	}
}

// What is no refusal is not read as one, nor the other way round.
func TestKeyErrors(t *testing.T) {
	db := redis(t)
	key := fence.Key{Redis: db, Name: "fence"}
	over, cancel := context.WithCancelCause(t.Context())
	cancel(holdfast.ErrLost)
	eval(t, db, `return redis.call('SET', KEYS[1], '42')`, "strange")
	eval(t, db, `return redis.call('RPUSH', KEYS[1], '42')`, "list")
	strange, list := fence.Key{Redis: db, Name: "strange"}, fence.Key{Redis: db, Name: "list"}
	for _, c := range []struct {
		says string
		err  error
	}{
		{"does not hold a token", strange.Enter(t.Context(), newer)},
		{"is not a token", second(strange.Seen(t.Context()))},
		{"WRONGTYPE", list.Enter(t.Context(), newer)},
		{"WRONGTYPE", second(list.Seen(t.Context()))},
		{"no such thing", second(key.Do(t.Context(), newer, `return redis.error_reply('ERR no such thing')`, nil))},
		{`fence "fence" on Redis`, second(key.Do(t.Context(), newer, "return redis.call('NONSENSE')", nil))},
		{"Error compiling", second(key.Do(t.Context(), newer, "this is no script", nil))},
		{"lease lost", key.Enter(over, newer)},
		{"lease lost", fence.Key{Redis: heedless{db}, Name: "fence"}.Enter(overdue{t.Context()}, newer)},
		{"without its Redis", fence.Key{Name: "fence"}.Enter(t.Context(), newer)},
	} {
		if c.err == nil || errors.Is(c.err, holdfast.ErrStale) || !strings.Contains(c.err.Error(), c.says) {
			t.Errorf("%v, want an error that says %q and is no refusal", c.err, c.says)
		}
	}
	if seen, _ := key.Seen(t.Context()); seen != newer { // the scripts that failed had entered
		t.Errorf("the fence is at %v", seen)
	}
	for _, name := range []string{"", "a\x00", "\xff", strings.Repeat("x", 513)} {
		bad := fence.Key{Redis: db, Name: name}
		for _, err := range []error{bad.Enter(t.Context(), newer), bad.SetFloor(t.Context(), newer),
			second(bad.Seen(t.Context()))} {
			if !errors.Is(err, holdfast.ErrBadName) {
				t.Errorf("%q: %v", name, err)
			}
		}
	}
}

// An overdue context is over, and nobody has noticed yet: as a lease's is after a pause of its process.
type overdue struct{ context.Context }

func (overdue) Err() error { return holdfast.ErrLost }

// A heedless client does not ask its context before it sends.
type heedless struct{ fence.Scripter }

func (h heedless) Eval(ctx context.Context, script string, keys, args []string) (any, error) {
	return h.Scripter.Eval(context.WithoutCancel(ctx), script, keys, args)
}

// TestKeyInCluster has fences on all nodes, and through a client that does not know where they lie.
func TestKeyInCluster(t *testing.T) {
	db := scripts(t, servers.RedisCluster(t).Addrs()...)
	for i := range 12 {
		data := fmt.Sprintf("{ledger:%d}", i)
		key := fence.Key{Redis: db, Name: data + ":fence"}
		_, err := key.Do(t.Context(), newer, set, []string{data}, "successor")
		testkit.Must(t, err)
		_, err = key.Do(t.Context(), older, set, []string{data}, "late writer")
		wantStale(t, err, older, newer)
		if entry := eval(t, db, `return redis.call('GET', KEYS[1])`, data); entry != "successor" {
			t.Errorf("%s has %q", data, entry)
		}
	}
	key := fence.Key{Redis: db, Name: "{here}:fence"}
	if _, err := key.Do(t.Context(), newer, set, []string{"{there}"}, "x"); err == nil ||
		!strings.Contains(err.Error(), "hash tag of the fence") {
		t.Errorf("a fence that lies elsewhere than the data: %v", err)
	}
}
