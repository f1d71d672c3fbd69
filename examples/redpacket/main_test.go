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
			checkRun(t, t.Context(), test.args, test.code, test.stdout, test.stderr)
		})
	}
}

func TestRunIsInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	checkRun(t, ctx, "", 1, "", "interrupted after 0 draws")
}

// checkRun runs the program within the test. What stdout must have, or stderr in its one line, may be nothing.
func checkRun(t *testing.T, ctx context.Context, args string, wantCode int, wantOut, wantErr string) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	if code := run(ctx, strings.Fields(args), &stdout, &stderr); code != wantCode {
		t.Errorf("exit code %d, want %d", code, wantCode)
	}
	if !strings.Contains(stdout.String(), wantOut) || wantOut == "" && stdout.Len() > 0 {
		t.Errorf("stdout %q, want %q", &stdout, wantOut)
	}
	line, rest, _ := strings.Cut(stderr.String(), "\n")
	if !strings.Contains(line, wantErr) || (line == "") != (wantErr == "") || rest != "" ||
		line != "" && !strings.HasPrefix(line, "redpacket: ") {
		t.Errorf("stderr %q, want one line that says %q", &stderr, wantErr)
	}
}
