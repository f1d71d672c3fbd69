package holdfast_test

import (
	"encoding/json"
	"slices"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/store"
)

func TestInspect(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		c := r.client()
		m := c.RWMutex("x", holdfast.WithLabel("reports"))
		if queue, err := m.Inspect(t.Context()); err != nil || queue.Name != "x" || len(queue.Entries) != 0 {
			t.Fatalf("the queue is not empty: %+v, %v", queue, err)
		}
		one := r.lock(m.RLock)
		r.pass(time.Second)
		r.lock(m.RLock)
		writer := r.begin(m.Lock)
		queue, err := m.Inspect(t.Context())
		if err != nil || len(queue.Holders()) != 2 || len(queue.Waiters()) != 1 {
			t.Fatalf("%+v, %v", queue, err)
		}
		first, last := queue.Entries[0], queue.Waiters()[0]
		if first.Token != one.Token() || first.Owner.Label != "reports" || first.Owner.PID == 0 || first.Units != 1 ||
			first.Kind != store.Lock || !first.Held || time.Since(first.Since) != time.Second ||
			first.Left != ttl-time.Second {
			t.Errorf("the first is %+v", first)
		}
		if last.Held || last.Token.Shared() || last.Units != last.Limit || last.Token <= one.Token() {
			t.Errorf("the last is %+v", last)
		}
		writer.end()
	})
}

func TestNames(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		c := r.client()
		for _, name := range []string{"job/a", "job/b", "job", "other"} {
			r.lock(c.Mutex(name).Lock)
		}
		var got []string
		for name, err := range c.Names(t.Context(), "job/") {
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, name)
		}
		if slices.Sort(got); !slices.Equal(got, []string{"job/a", "job/b"}) {
			t.Fatalf("got %q", got)
		}
		for range c.Names(t.Context(), "") {
			break // stopping early is allowed
		}
	})
}

func TestTokenInText(t *testing.T) {
	const token = holdfast.Token(1<<60 | 1<<7 | 3) // beyond what a JSON number can carry
	text, err := json.Marshal(token)
	if err != nil || string(text) != `"1152921504606847107"` {
		t.Fatalf("%s, %v", text, err)
	}
	var back holdfast.Token
	if err := json.Unmarshal(text, &back); err != nil || back != token || !back.Shared() || back.Ticket() != 1<<52 {
		t.Fatalf("%v, %v", back, err)
	}
	for _, bad := range []string{"", "0", "255", "-1", "1.5", "0x100", "99999999999999999999", "9223372036854775808",
		" 256"} {
		if token, err := holdfast.ParseToken(bad); err == nil {
			t.Errorf("%q was read as %v", bad, token)
		}
	}
}
