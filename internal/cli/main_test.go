package cli

import (
	"bytes"
	"context"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/testkit"
)

// This binary is also the program, where a test starts verify or top, or verify its workers.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && (os.Args[1] == "verify" || os.Args[1] == "top") {
		os.Exit(Main(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
	}
	testkit.Main(m)
}

// storeOf is the URL of a store in memory that a test has for itself.
func storeOf(t *testing.T) string { return "memory:" + strings.ReplaceAll(t.Name(), "/", "-") }

// A result is what one call of the program said.
type result struct {
	code        int
	out, errors string
}

// want demands an exit code, and patterns of what is written to stdout and stderr.
func (r result) want(t testing.TB, code int, out, errors string) {
	t.Helper()
	if r.code != code || !regexp.MustCompile(out).MatchString(r.out) ||
		!regexp.MustCompile(errors).MatchString(r.errors) {
		t.Errorf("exit code %d, want %d; stdout %q, want %q; stderr %q, want %q", r.code, code, r.out, out, r.errors,
			errors)
	}
}

// nothing is the pattern of no text.
const nothing = `^$`

// complains demands one line on stderr, which says this, and nothing on stdout.
func (r result) complains(t testing.TB, code int, says string) {
	t.Helper()
	r.want(t, code, nothing, `^holdfast: [^\n]*\n$`)
	if !strings.Contains(r.errors, says) {
		t.Errorf("it says %q, want %q", r.errors, says)
	}
}

// call runs a command line. It is given a store in memory unless it says otherwise.
func call(t *testing.T, args ...string) result {
	t.Helper()
	return bare(t, append([]string{"--store=" + storeOf(t)}, args...)...)
}

// bare is call without a store.
func bare(t *testing.T, args ...string) result {
	t.Helper()
	var out, errs bytes.Buffer
	a := &app{stdin: strings.NewReader(""), stdout: &out, stderr: &errs}
	code := a.run(t.Context(), args)
	return result{code, out.String(), errs.String()}
}

// callOnFiles is call for commands that run another program, which needs files.
func callOnFiles(t *testing.T, args ...string) result {
	t.Helper()
	files := [3]*os.File{temp(t), temp(t), temp(t)}
	a := &app{stdin: files[0], stdout: files[1], stderr: files[2], inProcess: true}
	code := a.run(t.Context(), append([]string{"--store=" + storeOf(t)}, args...))
	return result{code, read(t, files[1].Name()), read(t, files[2].Name())}
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// temp is an empty file.
func temp(t *testing.T) *os.File {
	t.Helper()
	f, err := os.CreateTemp(t.TempDir(), "stream")
	check(t, err)
	t.Cleanup(func() { f.Close() })
	return f
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	check(t, err)
	return string(text)
}

// client is somebody else who uses the test's store.
func client(t *testing.T, options ...holdfast.Option) *holdfast.Client {
	t.Helper()
	c, err := holdfast.Open(t.Context(), storeOf(t), options...)
	check(t, err)
	t.Cleanup(func() { c.Close() })
	return c
}

// locked is a lock that somebody else holds.
func locked(t *testing.T, name string, options ...holdfast.Option) *holdfast.Lease {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	l, err := client(t, options...).Mutex(name).Lock(ctx)
	check(t, err)
	return l
}
