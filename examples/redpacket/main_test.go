package main

import (
	"bytes"
	"context"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestRun(t *testing.T) {
	for _, test := range []struct {
		args   string
		code   int
		stdout string // a part of it; empty: nothing
		stderr string // a part of its one line; empty: nothing
	}{
		{"", 0, "paid                      100.00\n", ""},
		{"--cents=1234 --shares=7 --users=7", 0, "paid                       12.34\n", ""},
		{"--no-lock", 1, "without a lock", "WRONG: users who drew twice: "},
		{"--help", 0, "redpacket --no-lock", ""},
		{"--luck", 2, "", "flag provided but not defined: -luck"},
		{"me", 2, "", `unexpected argument "me"`},
		{"--users=0", 2, "", "must be at least 1"},
		{"--shares=0", 2, "", "must be at least 1"},
		{"--cents=3 --shares=4", 2, "", "--cents must be at least --shares"},
	} {
		t.Run(test.args, func(t *testing.T) {
			code, stdout, stderr := runHere(t.Context(), strings.Fields(test.args)...)
			if code != test.code {
				t.Errorf("exit code %d, want %d", code, test.code)
			}
			if !strings.Contains(stdout, test.stdout) || test.stdout == "" && stdout != "" {
				t.Errorf("stdout %q, want %q", stdout, test.stdout)
			}
			if test.stderr == "" && stderr != "" {
				t.Errorf("stderr %q, want nothing", stderr)
			}
			if test.stderr != "" {
				checkErrorLine(t, stderr, test.stderr)
			}
		})
	}
}

func TestRunIsInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	code, stdout, stderr := runHere(ctx)
	if code != 1 || stdout != "" {
		t.Errorf("exit code %d, stdout %q", code, stdout)
	}
	checkErrorLine(t, stderr, "interrupted after 0 draws")
}

// runHere runs the program within the test.
func runHere(ctx context.Context, args ...string) (code int, stdout, stderr string) {
	var out, err bytes.Buffer
	code = run(ctx, args, &out, &err)
	return code, out.String(), err.String()
}

// checkErrorLine checks that stderr is one line that starts with the program's name and says want.
func checkErrorLine(t *testing.T, stderr, want string) {
	t.Helper()
	line, rest, ended := strings.Cut(stderr, "\n")
	if !strings.HasPrefix(line, "redpacket: ") || !strings.Contains(line, want) || !ended || rest != "" {
		t.Errorf("stderr %q, want one line that starts with redpacket: and says %q", stderr, want)
	}
}
