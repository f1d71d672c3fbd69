package fence_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/redis/rueidis"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/fence"
	"github.com/holdfast-go/holdfast/internal/servers"
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
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return redisstore.Scripts{Client: client}
}

// eval runs a script behind the fence's back.
func eval(t *testing.T, db fence.Scripter, script string, keys ...string) any {
	t.Helper()
	answer, err := db.Eval(context.WithoutCancel(t.Context()), script, keys, nil)
	if err != nil {
		t.Error(err)
	}
	return answer
}

// What is written in these tests.
const (
	set  = `return redis.call('SET', KEYS[1], ARGV[1])`
	push = `return redis.call('RPUSH', KEYS[1], ARGV[1])`
)

func TestKeyRefusesOlder(t *testing.T) {
	db := redis(t)
	key := fence.Key{Redis: db, Name: "ledger fence"}
	for _, token := range []holdfast.Token{older, older, newer, newer} {
		if err := key.Enter(t.Context(), token); err != nil {
			t.Fatalf("Enter(%v): %v", token, err)
		}
	}
	wantStale(t, key.Enter(t.Context(), older), older, newer)
	_, err := key.Do(t.Context(), older, set, []string{"ledger"}, "late")
	wantStale(t, err, older, newer)
	if eval(t, db, `return redis.call('EXISTS', KEYS[1])`, "ledger") != int64(0) {
		t.Error("a stale write was let in")
	}
	if seen, err := key.Seen(t.Context()); seen != newer || err != nil {
		t.Errorf("a refused token moved the fence to %v, %v", seen, err)
	}
}

func TestKeyIsCheckedButNeverRaisedByShared(t *testing.T) {
	key := fence.Key{Redis: redis(t), Name: "ledger fence"}
	if err := key.Enter(t.Context(), reader); err != nil {
		t.Fatalf("a reader before any writer: %v", err)
	}
	if err := errors.Join(key.Enter(t.Context(), older), key.Enter(t.Context(), reader)); err != nil {
		t.Fatal(err)
	}
	if seen, _ := key.Seen(t.Context()); seen != older {
		t.Fatalf("a shared token raised the fence to %v", seen)
	}
	if err := key.Enter(t.Context(), newer); err != nil {
		t.Fatal(err)
	}
	wantStale(t, key.Enter(t.Context(), reader), reader, newer)
}

// Beyond 2^53 a script cannot tell a number from the next, which is why tokens are compared as text.
func TestKeyTellsLargeTokensApart(t *testing.T) {
	db := redis(t)
	const first, next = holdfast.Token(1<<62 + 256), holdfast.Token(1<<62 + 512)
	if eval(t, db, fmt.Sprintf("return tonumber('%d') == tonumber('%d') and 1 or 0", first, first+1)) != int64(1) {
		t.Error("the control tells them apart as numbers: it cannot show that text is needed")
	}
	key := fence.Key{Redis: db, Name: "large"}
	for _, token := range []holdfast.Token{first, first + 1, next} {
		if err := key.Enter(t.Context(), token); err != nil {
			t.Fatal(err)
		}
	}
	wantStale(t, key.Enter(t.Context(), next-1), next-1, next)
}

func TestKeyRefusesNoToken(t *testing.T) {
	key := fence.Key{Redis: redis(t), Name: "ledger fence"}
	wantStale(t, key.Enter(t.Context(), 0), 0, 0)
	if err := key.Enter(t.Context(), older); err != nil {
		t.Fatal(err)
	}
	wantStale(t, key.Enter(t.Context(), 0), 0, older)
}

func TestKeyFloor(t *testing.T) {
	key := fence.Key{Redis: redis(t), Name: "ledger fence"}
	if seen, err := key.Seen(t.Context()); seen != 0 || err != nil {
		t.Fatalf("a new fence has seen %v, %v", seen, err)
	}
	for _, floor := range []holdfast.Token{newer, reader, 1<<64 - 1, newer} { // up, down, and to the end
		if err := key.SetFloor(t.Context(), floor); err != nil {
			t.Fatal(err)
		}
		wantStale(t, key.Enter(t.Context(), older), older, floor)
	}
	if err := key.SetFloor(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	if err := key.Enter(t.Context(), older); err != nil {
		t.Fatalf("after a reset: %v", err)
	}
}

// The script sees what it was given and nothing of the fence, and what it returns comes back.
func TestKeyRunsTheScriptAsItIs(t *testing.T) {
	key := fence.Key{Redis: redis(t), Name: "fence"}
	answer, err := key.Do(t.Context(), newer, `
		local token, seen, fence = 1, 2, 3 -- names that the fence has too
		return {#KEYS, #ARGV, KEYS[1], KEYS[2], ARGV[1], token + seen + fence}`, []string{"a", "b"}, "x")
	if want := []any{int64(2), int64(1), "a", "b", "x", int64(6)}; err != nil || fmt.Sprint(answer) != fmt.Sprint(want) {
		t.Errorf("got %v, %v, want %v", answer, err, want)
	}
	if answer, err := key.Do(t.Context(), newer, "return redis.call('GET', KEYS[1])", []string{"nothing"}); answer != nil || err != nil {
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
		{"holds what is no token", strange.Enter(t.Context(), newer)},
		{"is no token", second(strange.Seen(t.Context()))},
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
		for _, err := range []error{bad.Enter(t.Context(), newer), bad.SetFloor(t.Context(), newer), second(bad.Seen(t.Context()))} {
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

func second[T any](_ T, err error) error { return err }

// TestKeyLateWriter is TestLateWriter in Redis.
func TestKeyLateWriter(t *testing.T) {
	var late, successor holdfast.Token
	synctest.Test(t, func(t *testing.T) { late, successor = twoHolders(t) })
	for _, guarded := range []bool{false, true} {
		t.Run(fmt.Sprintf("fenced=%v", guarded), func(t *testing.T) {
			db := redis(t)
			key := fence.Key{Redis: db, Name: "{ledger}:fence"}
			write := func(token holdfast.Token, entry string) (err error) {
				if guarded {
					_, err = key.Do(t.Context(), token, set, []string{"{ledger}"}, entry)
				} else {
					_, err = db.Eval(t.Context(), set, []string{"{ledger}"}, []string{entry})
				}
				return err
			}
			if err := write(successor, "successor"); err != nil {
				t.Fatal(err)
			}
			err := write(late, "late writer")
			entry := eval(t, db, `return redis.call('GET', KEYS[1])`, "{ledger}")
			if guarded {
				wantStale(t, err, late, successor)
				if entry != "successor" {
					t.Errorf("the late write was let in: %q", entry)
				}
			} else if entry != "late writer" || err != nil {
				t.Errorf("the control kept %q, %v: it cannot show that the fence is needed", entry, err)
			}
		})
	}
}

// TestKeyIsRaisedOnEntry has a late writer between the read and the write of the new holder.
func TestKeyIsRaisedOnEntry(t *testing.T) {
	for _, enter := range []bool{false, true} {
		t.Run(fmt.Sprintf("enter=%v", enter), func(t *testing.T) {
			key := fence.Key{Redis: redis(t), Name: "{account}:fence"}
			update := func(token holdfast.Token, balance string) error {
				return second(key.Do(t.Context(), token, set, []string{"{account}"}, balance))
			}
			if enter {
				if err := key.Enter(t.Context(), newer); err != nil {
					t.Fatal(err)
				}
			}
			late := update(older, "50") // after the new holder has read, and before it writes
			if err := update(newer, "70"); err != nil {
				t.Fatal(err)
			}
			if enter {
				wantStale(t, late, older, newer)
			} else if late != nil {
				t.Errorf("the control refused the late write: %v. It cannot show that Enter is needed", late)
			}
		})
	}
}

// TestKeyUnderManyGoroutines has writers with rising tokens in random order. The sequence of what was written never goes
// back.
func TestKeyUnderManyGoroutines(t *testing.T) {
	db := redis(t)
	key := fence.Key{Redis: db, Name: "fence"}
	var wg sync.WaitGroup
	var last holdfast.Token
	for _, n := range rand.Perm(256) {
		token := holdfast.Token(n+1)<<8 | holdfast.Token(n%3%2)<<7 // some are shared
		last = max(last, token)
		wg.Go(func() {
			_, err := key.Do(t.Context(), token, push, []string{"log"}, fence.Pad(token))
			if err != nil && !errors.Is(err, holdfast.ErrStale) {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	var written []holdfast.Token
	var highest holdfast.Token
	for _, text := range eval(t, db, `return redis.call('LRANGE', KEYS[1], 0, -1)`, "log").([]any) {
		token, err := holdfast.ParseToken(text.(string))
		if err != nil {
			t.Fatal(err)
		}
		if token < highest {
			t.Errorf("%v wrote after %v", token, highest)
		}
		if !token.Shared() {
			highest = max(highest, token)
		}
		written = append(written, token)
	}
	if !slices.Contains(written, last) {
		t.Errorf("the last holder, %v, was refused: written were %v", last, written)
	}
}

// TestKeyInCluster has fences on all nodes, and through a client that does not know where they lie.
func TestKeyInCluster(t *testing.T) {
	db := scripts(t, servers.RedisCluster(t).Addrs()...)
	for i := range 12 {
		data := fmt.Sprintf("{ledger:%d}", i)
		key := fence.Key{Redis: db, Name: data + ":fence"}
		if _, err := key.Do(t.Context(), newer, set, []string{data}, "successor"); err != nil {
			t.Fatal(err)
		}
		_, err := key.Do(t.Context(), older, set, []string{data}, "late writer")
		wantStale(t, err, older, newer)
		if entry := eval(t, db, `return redis.call('GET', KEYS[1])`, data); entry != "successor" {
			t.Errorf("%s has %q", data, entry)
		}
	}
	key := fence.Key{Redis: db, Name: "{here}:fence"}
	if _, err := key.Do(t.Context(), newer, set, []string{"{there}"}, "x"); err == nil || !strings.Contains(err.Error(), "hash tag of the fence") {
		t.Errorf("a fence that lies elsewhere than the data: %v", err)
	}
}
