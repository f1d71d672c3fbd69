package main

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"path/filepath"
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
		{"sale --work=1ms", 0, "sold         100  in ", ""},
		{"sale --no-lock --buyers=64", 1, "in stock     100\n", "OVERSOLD by "},
		{"", 0, "inventory sale", ""},
		{"--help", 0, "inventory sale", ""},
		{"serve -h", 0, "inventory sale", ""},
		{"steal", 2, "", `unexpected argument "steal"`},
		{"sale now", 2, "", `unexpected argument "now"`},
		{"sale --fast", 2, "", "flag provided but not defined: -fast"},
		{"warehouse --items=-1", 2, "", "--items must be at least 0"},
		{"warehouse --items=many", 2, "", `invalid value "many" for flag -items`},
		{"buy --buyers=0", 2, "", "--buyers and --requests at least 1"},
		{"buy --requests=0", 2, "", "--buyers and --requests at least 1"},
		{"warehouse --addr=nowhere", 1, "", "listen tcp: address nowhere"},
		{"serve --no-lock --addr=nowhere", 1, "", "listen tcp: address nowhere"},
		{"serve --store=memory", 1, "", "a store's URL begins with a scheme"},
		{"sale --store=abacus:", 1, "", "no store is registered for the URL's scheme"},
		{"buy --stock-url=http://127.0.0.1:1", 1, "", "the warehouse does not answer"},
	} {
		t.Run(test.args, func(t *testing.T) {
			var stdout, stderr bytes.Buffer
			if code := run(t.Context(), strings.Fields(test.args), &stdout, &stderr); code != test.code {
				t.Errorf("exit code %d, want %d", code, test.code)
			}
			if !strings.Contains(stdout.String(), test.stdout) || test.stdout == "" && stdout.Len() > 0 {
				t.Errorf("stdout %q, want %q", &stdout, test.stdout)
			}
			line, rest, _ := strings.Cut(stderr.String(), "\n")
			if !strings.Contains(line, test.stderr) || (line == "") != (test.stderr == "") || rest != "" ||
				line != "" && !strings.HasPrefix(line, "inventory: ") {
				t.Errorf("stderr %q, want one line that says %q", &stderr, test.stderr)
			}
		})
	}
}

// TestShopsShareAFile runs the program as several processes would: a warehouse, two shops with nothing in common but a
// SQLite file, buyers, and Ctrl-C.
func TestShopsShareAFile(t *testing.T) {
	warehouse := start(t, "warehouse", "--items=20")
	locks := "--store=sqlite:" + filepath.Join(t.TempDir(), "shops.db")
	first := start(t, "serve", locks, "--work=1ms", "--stock-url="+warehouse)
	second := start(t, "serve", locks, "--work=1ms", "--stock-url="+warehouse)
	var stdout, stderr bytes.Buffer
	buy := []string{"buy", "--shops=" + first + "," + second, "--stock-url=" + warehouse, "--buyers=4"}
	code := run(t.Context(), buy, &stdout, &stderr)
	if code != 0 || stderr.Len() > 0 {
		t.Errorf("buy: exit code %d: %s", code, &stderr)
	}
	for _, line := range []string{
		"in stock      20\n", "sold          20  in ", "sold out       4 ", "errors         0\n", "left           0\n",
	} {
		if !strings.Contains(stdout.String(), line) {
			t.Errorf("buy has no line %q:\n%s", line, &stdout)
		}
	}
}

// start runs a command until the test ends, which ends it as Ctrl-C does. It returns the URL that the command says.
func start(t *testing.T, args ...string) (url string) {
	t.Helper()
	ctx, interrupt := context.WithCancel(t.Context())
	reader, stdout := io.Pipe()
	var stderr bytes.Buffer
	exited := make(chan int, 1)
	go func() {
		defer stdout.Close()
		exited <- run(ctx, append(args, "--addr=127.0.0.1:0"), stdout, &stderr)
	}()
	t.Cleanup(func() {
		interrupt()
		if code := <-exited; code != 0 || stderr.Len() > 0 {
			t.Errorf("%v: exit code %d: %s", args, code, &stderr)
		}
	})
	line, err := bufio.NewReader(reader).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	_, url, _ = strings.Cut(strings.TrimSpace(line), " at ")
	return url
}
