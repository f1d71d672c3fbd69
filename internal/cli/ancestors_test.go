package cli

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/store"
)

func TestHoldings(t *testing.T) {
	want := []holding{{"id/a b", "na:me\n %", 1 << 9}, {"", "x", 1 << 20}}
	t.Setenv(heldEnv, want[0].String()+" nonsense 0:a:b 12:%zz:x 256:a:b:c  "+want[1].String())
	if got := holdings(); !slices.Equal(got, want) {
		t.Errorf("%+v", got)
	}
}

// TestEnvironment checks what a command sees, and that nothing of an outer run is left that is not true any more.
func TestEnvironment(t *testing.T) {
	at, err := store.ParseLocation("redis://joe:hush@h:1?prefix=p")
	check(t, err)
	outer := holding{"elsewhere", "o", 3 << 8}
	for _, v := range os.Environ() { // what this test was started with is not what it is about
		if key, _, _ := strings.Cut(v, "="); strings.HasPrefix(key, "HOLDFAST_") {
			t.Setenv(key, "") // so that it comes back
			_ = os.Unsetenv(key)
		}
	}
	for key, value := range map[string]string{
		"HOLDFAST_NAME": "old", "HOLDFAST_TOKEN_2": "old", "HOLDFAST_NAME_7": "old", "HOLDFAST_STORE": "old",
		"HOLDFAST_HELD": outer.String(), "HOLDFAST_NAME_OF_MINE": "kept", "HOLDFAST_NAMES": "kept", "OTHER": "kept",
	} {
		t.Setenv(key, value)
	}
	r := &run{
		session: &session{at: at, abilities: store.Abilities{Identity: "here"}},
		names:   []string{"b", "a", "b"},
		grip:    &fakeTokens{tokens: []holdfast.Token{5 << 8, 4 << 8}},
	}
	held := []string{outer.String(), "1280:here:b", "1024:here:a", "1280:here:b"}
	want := map[string]string{
		"HOLDFAST_NAME": "b", "HOLDFAST_TOKEN": "1280", "HOLDFAST_STORE": "redis://joe:xxxxx@h:1?prefix=p",
		"HOLDFAST_NAME_1": "b", "HOLDFAST_TOKEN_1": "1280", "HOLDFAST_NAME_2": "a", "HOLDFAST_TOKEN_2": "1024",
		"HOLDFAST_NAME_3": "b", "HOLDFAST_TOKEN_3": "1280", "HOLDFAST_HELD": strings.Join(held, " "),
		"HOLDFAST_NAME_OF_MINE": "kept", "HOLDFAST_NAMES": "kept",
	}
	got := map[string]string{}
	others := 0
	for _, v := range r.environment() {
		key, value, _ := strings.Cut(v, "=")
		if !strings.HasPrefix(key, "HOLDFAST_") {
			others++
			continue
		}
		if _, twice := got[key]; twice {
			t.Errorf("%s is there twice", key)
		}
		got[key] = value
	}
	for key := range got {
		if got[key] != want[key] {
			t.Errorf("%s=%s, want %q", key, got[key], want[key])
		}
	}
	if len(got) != len(want) || others == 0 {
		t.Errorf("%d variables and %d others, want %d", len(got), others, len(want))
	}
	r.names, r.grip = []string{"a"}, &fakeTokens{tokens: []holdfast.Token{4 << 8}}
	if slices.ContainsFunc(r.environment(), func(v string) bool { return strings.HasPrefix(v, "HOLDFAST_NAME_1=") }) {
		t.Error("one name is numbered")
	}
}

type fakeTokens struct {
	grip
	tokens []holdfast.Token
}

func (f *fakeTokens) Tokens() []holdfast.Token { return f.tokens }

func TestIsOf(t *testing.T) {
	for key, want := range map[string]bool{
		"HOLDFAST_NAME": true, "HOLDFAST_NAME_1": true, "HOLDFAST_NAME_12": true,
		"HOLDFAST_NAME_": false, "HOLDFAST_NAME_X": false, "HOLDFAST_NAMES": false, "HOLDFAST_TOKEN": false,
	} {
		if isOf(nameEnv, key) != want {
			t.Errorf("%s: %v", key, !want)
		}
	}
}
