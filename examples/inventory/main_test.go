package main

import (
	"bytes"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestWrongUsage(t *testing.T) {
	const stock = "--stock-url=http://127.0.0.1:1"
	for _, test := range []struct {
		args string
		want string // in the error
	}{
		{"", "which command?"},
		{"steal", `unknown command "steal"`},
		{"demo now", `demo: unexpected argument "now"`},
		{"demo --fast", "demo: flag provided but not defined: -fast"},
		{"warehouse --items=-1", "warehouse: --items must be at least 0"},
		{"warehouse --items=many", `warehouse: invalid value "many" for flag -items`},
		{"serve --store=memory:", "serve: --stock-url is missing"},
		{"serve --store=memory: --stock-url=127.0.0.1:1", "serve: --stock-url: \"127.0.0.1:1\" is no URL"},
		{"serve " + stock, "serve: give either --store or --no-lock"},
		{"serve --store=memory: --no-lock " + stock, "serve: give either --store or --no-lock"},
		{"buy " + stock, "buy: --shops is missing"},
		{"buy --shops=http://127.0.0.1:1,ftp://shop " + stock, `buy: --shops: "ftp://shop" is no URL`},
		{"buy --shops=http://127.0.0.1:1", "buy: --stock-url is missing"},
		{"buy --shops=http://127.0.0.1:1 --buyers=0 " + stock, "buy: --buyers must be at least 1"},
		{"buy --shops=http://127.0.0.1:1 --requests=0 " + stock, "buy: --requests must be at least 1"},
	} {
		t.Run(test.args, func(t *testing.T) {
			code, stdout, stderr := runHere(t, strings.Fields(test.args)...)
			if code != 2 || stdout != "" {
				t.Errorf("exit code %d, want 2; on stdout %q, want nothing", code, stdout)
			}
			checkErrorLine(t, stderr, test.want)
		})
	}
}

func TestFailures(t *testing.T) {
	for _, test := range []struct {
		args string
		want string // in the error
	}{
		{"warehouse --addr=nowhere", "listen tcp: address nowhere"},
		{"serve --store=memory --stock-url=http://127.0.0.1:1", "a store's URL begins with a scheme"},
		{"serve --store=abacus: --stock-url=http://127.0.0.1:1", "no store is registered for the URL's scheme"},
		{"serve --no-lock --addr=nowhere --stock-url=http://127.0.0.1:1", "listen tcp: address nowhere"},
		{"buy --shops=http://127.0.0.1:1 --stock-url=http://127.0.0.1:1", "the warehouse does not answer"},
	} {
		t.Run(test.args, func(t *testing.T) {
			code, stdout, stderr := runHere(t, strings.Fields(test.args)...)
			if code != 1 || stdout != "" {
				t.Errorf("exit code %d, want 1; on stdout %q, want nothing", code, stdout)
			}
			checkErrorLine(t, stderr, test.want)
		})
	}
}

func TestHelp(t *testing.T) {
	for _, args := range []string{"--help", "-h", "help", "demo --help", "warehouse -h", "serve --help", "buy --help"} {
		t.Run(args, func(t *testing.T) {
			code, stdout, stderr := runHere(t, strings.Fields(args)...)
			if code != 0 || stderr != "" || !strings.Contains(stdout, "inventory ") {
				t.Errorf("exit code %d, stderr %q, stdout %q", code, stderr, stdout)
			}
		})
	}
}

// runHere runs the program within the test.
func runHere(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, err bytes.Buffer
	code = run(t.Context(), args, &out, &err)
	return code, out.String(), err.String()
}

// checkErrorLine checks that stderr is one line that starts with the program's name and says want.
func checkErrorLine(t *testing.T, stderr, want string) {
	t.Helper()
	line, rest, ended := strings.Cut(stderr, "\n")
	if !strings.HasPrefix(line, "inventory: ") || !strings.Contains(line, want) || !ended || rest != "" {
		t.Errorf("stderr %q, want one line that starts with inventory: and says %q", stderr, want)
	}
}
