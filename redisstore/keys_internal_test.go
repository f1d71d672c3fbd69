package redisstore

import "testing"

func TestKeys(t *testing.T) {
	for _, test := range []struct{ prefix, name, want string }{
		{"", "a", "holdfast:{|a}"},
		{"shop", "inventory:42", "holdfast:{shop|inventory:42}"},
		{"a|b", "c", "holdfast:{a%7Cb|c}"},
		{"a", "b|c", "holdfast:{a|b%7Cc}"},
		{"", "{x}", "holdfast:{|%7Bx%7D}"},
		{"", "a\nb%", "holdfast:{|a%0Ab%25}"},
		{"*", "?[a]\\", "holdfast:{%2A|%3F%5Ba%5D%5C}"},
		{"", "日本 語", "holdfast:{|日本 語}"},
	} {
		k := newKeySpace(test.prefix)
		if got := k.line(test.name); got != test.want {
			t.Errorf("the key of %q in %q is %q, want %q", test.name, test.prefix, got, test.want)
		}
		if name, ok := k.name(test.want); !ok || name != test.name {
			t.Errorf("the name of %q is %q, want %q", test.want, name, test.name)
		}
	}
}

// What lies among our keys and is no queue must not be listed as one.
func TestKeysOfNoLine(t *testing.T) {
	k := newKeySpace("p")
	for _, key := range []string{
		"", "holdfast", "holdfast:{p}:mark", "holdfast:{p|}", "holdfast:{p|a}:r", "holdfast:{p|a", "holdfast:{q|a}",
		"holdfast:{p|%}", "holdfast:{p|%4}", "holdfast:{p|%zz}", "holdfast:{pp|a}", k.mark, k.id, k.run,
	} {
		if name, ok := k.name(key); ok {
			t.Errorf("the key %q counts as the line of %q", key, name)
		}
	}
}
