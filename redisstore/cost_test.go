package redisstore_test

import (
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/testkit"
	"github.com/holdfast-go/holdfast/store"
)

// A lock that no other client wants costs one command, and releasing it another.
func TestOneCommandEach(t *testing.T) {
	server, s := newServer(t, "")
	locks := holdfast.New(s)
	defer locks.Close()
	lockAndUnlock := func() {
		lease := testkit.Lock(t, locks, "inventory:42")
		testkit.Must(t, lease.Unlock(t.Context()))
	}
	lockAndUnlock() // the first time the server does not know the scripts yet

	monitor, err := server.Dial()
	testkit.Must(t, err)
	defer monitor.Close()
	_, err = monitor.Do("MONITOR")
	testkit.Must(t, err)
	for range 3 {
		lockAndUnlock()
	}
	do(t, server, "ECHO", "the end")
	var sent, inside []string
	for {
		line, err := monitor.Receive()
		testkit.Must(t, err)
		text := line.(string) // TIME [DB CLIENT] "COMMAND" ...
		if strings.Contains(text, "the end") {
			break
		}
		_, command, _ := strings.Cut(text, "] ")
		command, _, _ = strings.Cut(strings.Trim(command, `"`), `"`)
		switch {
		case strings.Contains(text, " lua]"):
			inside = append(inside, strings.ToUpper(command))
		case command != "PING": // rueidis asks whether a silent connection is there
			sent = append(sent, command)
		}
	}
	if got, want := strings.Join(sent, " "), "EVALSHA EVALSHA EVALSHA EVALSHA EVALSHA EVALSHA"; got != want {
		t.Errorf("three times Lock and Unlock sent %s, want %s", got, want)
	}
	if got, want := strings.Join(inside[:4], " "), "INCR SET GETRANGE DEL"; got != want || len(inside) != 3*4 {
		t.Errorf("in the scripts they were %d commands, and the first %s; want %s each time", len(inside), got, want)
	}
}

// A hand-over costs the same in a queue of a thousand as in one of ten.
func TestHandOverCost(t *testing.T) {
	server, s := newServer(t, "")
	const handOvers = 5
	cost := func(name string, waiters int) int {
		line := make([]store.Claim, waiters+1)
		for i := range line {
			line[i] = claim(name)
			state := store.Waiting
			if i == 0 {
				state = store.Held
			}
			testkit.Join(t, s, &line[i], state)
		}
		before := calls(t, server, "")
		for i := range handOvers {
			testkit.Leave(t, s, line[i])
			testkit.Keep(t, s, line[i+1], store.Held)
		}
		return calls(t, server, "") - before
	}
	short, long := cost("short", 10), cost("long", 1000)
	if short == 0 || float64(long) > 1.2*float64(short) {
		t.Errorf("%d hand-overs were %d commands in a line of 10, and %d in one of 1,000", handOvers, short, long)
	}
}

// A batch is cut into scripts that are short each.
func TestKeepInShortScripts(t *testing.T) {
	server, s := newServer(t, "")
	claims := make([]store.Claim, 512)
	for i := range claims {
		claims[i] = reader("crowd")
		testkit.Join(t, s, &claims[i], store.Held)
	}
	testkit.Keep(t, s, claims[0], store.Held) // the server knows the script now
	before := calls(t, server, "evalsha")
	standings, err := s.Keep(t.Context(), claims)
	testkit.Must(t, err)
	for i, k := range standings {
		if k.Err != nil || k.State != store.Held || k.Ticket != claims[i].Ticket {
			t.Fatalf("claim %d: %+v", i, k)
		}
	}
	if n := calls(t, server, "evalsha") - before; n != 512/64 {
		t.Errorf("512 claims were kept by %d scripts, want %d", n, 512/64)
	}
}
