package cli

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
)

// onFile runs a command line on a SQLite file, with a text on stdin.
func onFile(t *testing.T, url, stdin string, args ...string) result {
	t.Helper()
	var out, errs bytes.Buffer
	a := &app{stdin: strings.NewReader(stdin), stdout: &out, stderr: &errs}
	code := a.run(t.Context(), append([]string{"--store=" + url}, args...))
	return result{code, out.String(), errs.String()}
}

// TestAcquire plays a script that takes a lock, renews it and releases it. Each call is one of its own, as a process
// is: between them the store alone keeps the lock.
func TestAcquire(t *testing.T) {
	url := "sqlite:" + filepath.Join(t.TempDir(), "locks.db")
	do := func(args ...string) result { return onFile(t, url, "", args...) }
	acquired := do("acquire", "deploy", "--for", "5m", "--label", "script")
	acquired.want(t, 0, `^hf1\.[\w-]+\n$`, nothing)
	lease := strings.TrimSpace(acquired.out)

	do("acquire", "deploy", "--for", "5m", "--no-wait").complains(t, exitBusy, "locked by script")
	do("show", "deploy").want(t, 0, `script`, nothing)
	do("renew", lease, "--for", "10m").want(t, 0, nothing, nothing)
	t.Setenv(leaseEnv, lease)
	do("renew", "--for", "10m").want(t, 0, nothing, nothing)
	onFile(t, url, lease+"\n", "release", "-").want(t, 0, nothing, nothing)
	do("release", lease).complains(t, exitLost, "lost")
	do("renew", lease, "--for", "1m").complains(t, exitLost, "lost")

	var printed struct {
		Lease holdfast.Detached
		Name  string
		Token holdfast.Token
		Until time.Time
	}
	check(t, json.Unmarshal([]byte(do("acquire", "deploy", "--for", "5m", "--json").out), &printed))
	left := time.Until(printed.Until)
	if printed.Name != "deploy" || printed.Token != printed.Lease.Token() ||
		left > 5*time.Minute || left < 4*time.Minute {
		t.Errorf("printed %+v", printed)
	}
	do("acquire", "encode", "--slots", "2", "--for", "5m").want(t, 0, `^hf1`, nothing)
	do("acquire", "encode", "--slots", "2", "--for", "5m").want(t, 0, `^hf1`, nothing)
	do("acquire", "encode", "--slots", "2", "--for", "5m", "--no-wait").complains(t, exitBusy, "locked")
	do("acquire", "encode", "--slots", "3", "--for", "5m", "--no-wait").complains(t, exitUsage, "semaphore of 2")
	do("acquire", "encode", "--slots", "3", "--change-slots", "--for", "5m", "--no-wait").want(t, 0, `^hf1`, nothing)
	do("acquire", "book", "--shared", "--for", "5m").want(t, 0, `^hf1`, nothing)
	do("acquire", "book", "--shared", "--for", "5m").want(t, 0, `^hf1`, nothing)
}

// TestAcquireExpires: nothing renews the lock.
func TestAcquireExpires(t *testing.T) {
	url := "sqlite:" + filepath.Join(t.TempDir(), "locks.db")
	began := time.Now()
	onFile(t, url, "", "acquire", "x", "--for", "300ms").want(t, 0, `^hf1`, nothing)
	onFile(t, url, "", "acquire", "x", "--for", "300ms", "--wait", "1m").want(t, 0, `^hf1`, nothing)
	if d := time.Since(began); d < 300*time.Millisecond {
		t.Errorf("acquired again after %v", d)
	}
}

func TestAcquireCalledWrongly(t *testing.T) {
	t.Setenv(leaseEnv, "")
	call(t, "acquire", "x").complains(t, exitUsage, "--for is missing")
	call(t, "acquire", "--for", "1m").complains(t, exitUsage, "one name")
	file := "sqlite:" + filepath.Join(t.TempDir(), "locks.db")
	onFile(t, file, "", "acquire", "x", "--for", "0").complains(t, exitUsage, "bad ttl")
	onFile(t, file, "", "acquire", "taken", "--for", "5m").want(t, 0, `^hf1`, nothing)
	onFile(t, file, "", "acquire", "taken", "--for", "900000h").complains(t, exitUsage, "bad ttl") // it does not wait
	call(t, "renew", "x").complains(t, exitUsage, "--for is missing")
	call(t, "renew", "x", "--for", "1m").complains(t, exitUsage, "bad detached lease")
	call(t, "release").complains(t, exitUsage, "no lease")
	call(t, "release", "-").complains(t, exitUsage, "no lease")
	x, err := locked(t, "x").Detach(t.Context(), time.Minute)
	check(t, err)
	bare(t, "--store=memory:elsewhere", "release", x.String()).complains(t, exitUsage, "another store")
}

// TestRunOnce runs a job for one key on three machines, one after the other, and for another key.
func TestRunOnce(t *testing.T) {
	trace := filepath.Join(t.TempDir(), "trace")
	job := []string{"job", "--", "sh", "-c", "echo $HOLDFAST_TOKEN >> " + trace + "; exit 3"}
	runs := func() int { return len(strings.Fields(read(t, trace))) }
	once := func(key string, more ...string) result {
		return callOnFiles(t, append(append([]string{"run", "--once", key}, more...), job...)...)
	}
	once("monday").want(t, 3, nothing, nothing)
	once("monday").want(t, 0, nothing, nothing)
	once("monday", "-v").want(t, 0, nothing, "job has been run for monday before")
	if n := runs(); n != 1 {
		t.Errorf("it ran %d times", n)
	}
	once("tuesday", "--keep-for", "100ms").want(t, 3, nothing, nothing)
	time.Sleep(150 * time.Millisecond) // until the store has forgotten it
	once("tuesday").want(t, 3, nothing, nothing)
	if n := runs(); n != 3 {
		t.Errorf("it ran %d times", n)
	}
	once("").complains(t, exitUsage, "KEY")
	once("a@b").complains(t, exitUsage, "occasion")
	once("x", "--shared").complains(t, exitUsage, "--once needs one name")
	callOnFiles(t, append([]string{"run", "--keep-for", "1h"}, job...)...).complains(t, exitUsage, "--keep-for needs")
}

// TestRunAtLeast is cron on two machines whose clocks differ, with a short job: without --at-least it runs on both.
func TestRunAtLeast(t *testing.T) {
	trace := filepath.Join(t.TempDir(), "trace")
	check(t, os.WriteFile(trace, nil, 0o600))
	cron := func(flags ...string) {
		t.Helper()
		args := append(append([]string{"run", "--skip"}, flags...), "job", "--", "sh", "-c", "echo ran >> "+trace)
		callOnFiles(t, args...).want(t, 0, nothing, nothing)
	}
	cron()
	cron()
	if n := len(strings.Fields(read(t, trace))); n != 2 {
		t.Errorf("without the flag it ran %d times: this test shows nothing", n)
	}
	cron("--at-least", "50")
	cron("--at-least", "50")
	if n := len(strings.Fields(read(t, trace))); n != 3 {
		t.Errorf("with the flag it ran %d times", n-2)
	}
	call(t, "show", "job").want(t, 0, "^ +OWNER.*\nheld ", nothing)
}
