package cli

import (
	"context"
	"strings"
	"testing"
	"time"
)

// TestMessagesSayOneThing: whatever goes wrong, the program's name stands in its message once, and so does the store's.
func TestMessagesSayOneThing(t *testing.T) {
	long, words := strings.Repeat("nightly/", 62), strings.Fields
	for what, scene := range map[string]struct {
		args []string
		says string
	}{
		"taken":           {words("run --no-wait taken -- true"), `trylock "taken" on memory: locked by `},
		"waited":          {words("run --wait 10ms taken -- true"), `lock "taken" on memory: locked by `},
		"waited, verbose": {words("run -v --wait 10ms taken -- true"), "waiting for taken: locked by "},
		"mismatch":        {words("run --slots 3 taken -- true"), "in use as a lock"},
		"ttl":             {words("run --ttl 1000h x -- true"), `holdfast: lock "x" on memory: bad ttl: 1000h0m0s`},
		"ttl of two":      {words("run --ttl 1000h x y -- true"), `lock all: part 0: lock "x" on memory: bad ttl`},
		"no token":        {words("break --yes --token x taken"), `--token: "x" is not a token`},
		"not held":        {words("show " + long), `is not held`},
		"not held, break": {words("break --yes " + long), `is not held`},
		"URL":             {words("--store memory:?prefix=%00 ls"), "bad name: it has a NUL byte (the prefix)"},
		"parameter":       {words("--store memory:?x=y ls"), "holdfast: open: unknown parameter in the URL"},
	} {
		t.Run(what, func(t *testing.T) {
			locked(t, "taken")
			r := callOnFiles(t, scene.args...)
			lines := strings.Split(strings.TrimSuffix(r.errors, "\n"), "\n")
			if !strings.Contains(r.errors, scene.says) {
				t.Errorf("it says %q, want %q", r.errors, scene.says)
			}
			for _, line := range lines {
				if strings.Count(line, "holdfast:") != 1 || strings.Count(line, " on memory") > 1 || len(line) > 400 {
					t.Errorf("it says %q", line)
				}
			}
		})
	}
}

// TestLossIsSaidOnce: a lock is broken while its command runs.
func TestLossIsSaidOnce(t *testing.T) {
	for _, flag := range []string{"--wait=1m", "--no-wait"} {
		t.Run(flag, func(t *testing.T) {
			c := client(t)
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
			defer cancel()
			go func() {
				for ctx.Err() == nil {
					line, err := c.Inspect(ctx, "x")
					if holders := line.Holders(); err == nil && len(holders) > 0 {
						_ = c.Break(ctx, "x", holders[0].Token) // if it fails, the command says that it was not lost
						return
					}
					time.Sleep(time.Millisecond)
				}
			}()
			r := callOnFiles(t, "run", flag, "x", "--", "sleep", "60")
			const want = "holdfast: lost x on memory: lease lost: the store no longer has it; the command must end\n"
			if r.code != exitLost || r.errors != want {
				t.Errorf("%d, %q, want %q", r.code, r.errors, want)
			}
		})
	}
}
