//go:build unix

// Package newcomer_test walks the path of a new user on a clean clone, with the commands and programs that README.md
// and docs have: install, run, cron, Go programs, a Redis server, verify, and the page.
package newcomer_test

import (
	"bufio"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/servers"
	"github.com/holdfast-go/holdfast/internal/testkit"
)

// TestNewcomer walks the whole path, step by step.
func TestNewcomer(t *testing.T) {
	u := newUser(t)
	for _, step := range []struct {
		name string
		do   func(*user, *testing.T)
	}{
		{"install", (*user).install},
		{"run", (*user).run},
		{"cron", (*user).cron},
		{"program", (*user).program},
		{"redis", (*user).redis},
		{"verify", (*user).verify},
		{"page", (*user).page},
	} {
		if !t.Run(step.name, func(t *testing.T) { step.do(u, t) }) {
			t.FailNow() // each step builds on those before it
		}
	}
}

// install builds the command in the clone, which needs no flag and no setting.
func (u *user) install(t *testing.T) {
	output(t, u.clone, u.goEnv(), 0, "go", "install", "./cmd/holdfast")
	if out := u.shell(t, 0, "holdfast --version"); !strings.HasPrefix(out, "holdfast ") {
		t.Errorf("it printed %q", out)
	}
}

// run runs README's block of commands twice, in a home without configuration: what is meant to run once a day runs
// once. Then the exit codes are those that README promises.
func (u *user) run(t *testing.T) {
	for _, name := range []string{"nightly.sh", "bill.sh", "deploy.sh", "encode.sh", "scheduler"} {
		u.script(t, name, `echo "${0##*/}" >>log`)
	}
	commands := "set -e\n" + u.block(t, "README.md", "sh", "holdfast run --once")
	u.shell(t, 0, commands)
	if got, want := u.logs(t), "nightly.sh\nbill.sh\ndeploy.sh\nencode.sh\nscheduler\n"; got != want {
		t.Errorf("the first time, these ran: %q", got)
	}
	u.shell(t, 0, commands)
	if got, want := u.logs(t), "nightly.sh\ndeploy.sh\nencode.sh\nscheduler\n"; got != want {
		t.Errorf("the second time, these ran: %q", got)
	}
	if out := u.shell(t, 0, "holdfast ls --json"); !strings.Contains(out, "sqlite at "+u.home) {
		t.Errorf("the default store is not a file in the user's home:\n%s", out)
	}

	u.shell(t, 7, "holdfast run deploy -- sh -c 'exit 7'")
	u.shell(t, 127, "holdfast run deploy -- ./no-such-script")
	u.shell(t, 64, "holdfast run --no-such-flag deploy -- ./deploy.sh")
	release := u.hold(t, "deploy")
	u.shell(t, 75, "holdfast run --wait 0.1 deploy -- ./deploy.sh")
	u.shell(t, 0, "holdfast run --skip deploy -- ./deploy.sh")
	if got := u.logs(t); got != "" {
		t.Errorf("under a lock that is taken, these ran: %q", got)
	}
	if out := u.shell(t, 0, "holdfast ls"); !strings.Contains(out, "deploy") {
		t.Errorf("ls does not list the lock:\n%s", out)
	}
	release()
	u.shell(t, 0, "holdfast run --wait 30 deploy -- ./deploy.sh")
	if got := u.logs(t); got != "deploy.sh\n" {
		t.Errorf("when the lock is free again, these ran: %q", got)
	}
}

// cron runs lines of the crontabs in docs as cron does: in /bin/sh, with cron's few variables.
func (u *user) cron(t *testing.T) {
	jobs := u.block(t, "docs/cli.md", "crontab", "--at-least")
	for _, c := range []struct {
		block, option, script string
		held                  string // a lock that is taken meanwhile
		runs                  int    // of two
	}{
		{block: u.block(t, "docs/recipes.md", "crontab", "--once"), option: "--once", script: "nightly.sh", runs: 1},
		{block: jobs, option: "--once", script: "bill.sh"}, // the key and the name are those of README's block
		{block: jobs, option: "--at-least", script: "poll.sh", runs: 1},
		{block: u.block(t, "docs/cli.md", "crontab", "--skip sync"), option: "--skip", script: "sync.sh", runs: 2},
		{block: u.block(t, "docs/cli.md", "crontab", "--skip sync"), option: "--skip", script: "sync.sh", held: "sync"},
	} {
		u.script(t, c.script, `echo ran >>"$HOME/log"`)
		job := u.job(t, line(t, c.block, c.option))
		if c.held != "" {
			u.hold(t, c.held)
		}
		for range 2 {
			if out := output(t, u.home, u.cronEnv(), 0, "/bin/sh", "-c", job); out != "" {
				t.Errorf("%s: cron would send a mail:\n%s", job, out)
			}
		}
		if ran := strings.Count(u.logs(t), "ran\n"); ran != c.runs {
			t.Errorf("%s, held %q: of two, %d ran", job, c.held, ran)
		}
	}
}

// job returns the command of a line of a crontab, with its script in the user's home.
func (u *user) job(t *testing.T, line string) string {
	t.Helper()
	parts := regexp.MustCompile(`^(?:\S+\s+){5}(.*)$`).FindStringSubmatch(line)
	if parts == nil || regexp.MustCompile(`[^\\]%`).MatchString(line) {
		t.Fatalf("%s: cron would not run this as it is meant", line)
	}
	return strings.NewReplacer(`\%`, "%", "/usr/local/bin/", "./", "/opt/jobs/", "./").Replace(parts[1])
}

// program makes README's first program the only file of a new module, and runs it. The module replaces Holdfast by the
// clone, and takes what else README's go get needs from the cache, which the installation has filled.
func (u *user) program(t *testing.T) {
	get := line(t, u.block(t, "README.md", "sh", "go get"), "go get")
	program := u.build(t, "report", u.block(t, "README.md", "go", `"sqlite:locks.db"`), get)
	for range 2 {
		if out := u.shell(t, 0, program); !regexp.MustCompile(`^running alone, with token \d+\n$`).MatchString(out) {
			t.Errorf("it printed %q", out)
		}
	}
	if out := u.shell(t, 0, "holdfast ls --store sqlite:locks.db --json"); !strings.Contains(out, `"locks": []`) {
		t.Errorf("it left something behind:\n%s", out)
	}
}

// build builds a program in a module of its own, and returns the name by which the user can call it.
func (u *user) build(t *testing.T, name, source, get string) string {
	t.Helper()
	dir := filepath.Join(u.home, name)
	testkit.Must(t, os.Mkdir(dir, 0o700))
	testkit.Must(t, os.WriteFile(filepath.Join(dir, "main.go"), []byte(source), 0o600))
	env := u.goEnv("GOPROXY=off", "GOSUMDB=off")
	for _, command := range []string{
		"go mod init example.com/" + name,
		"go mod edit -replace github.com/holdfast-go/holdfast='" + u.clone + "'",
		get,
		"go install .",
	} {
		output(t, dir, env, 0, "/bin/sh", "-c", command)
	}
	return name
}

// redis moves to a Redis server: two commands exclude each other there, and so do a command and README's program.
func (u *user) redis(t *testing.T) {
	at := "redis://" + servers.Redis(t).Addr()
	store := "HOLDFAST_STORE=" + at
	u.script(t, "nightly.sh", `echo "ran with token $HOLDFAST_TOKEN" >>log`)

	release := u.hold(t, "nightly", store)
	u.shell(t, 0, "holdfast run --skip nightly -- ./nightly.sh", store)
	u.shell(t, 75, "holdfast run --no-wait nightly -- ./nightly.sh", store)
	if got := u.logs(t); got != "" {
		t.Errorf("beside the holder: %q", got)
	}
	u.shell(t, 0, "holdfast run --skip nightly -- ./nightly.sh") // the file is another store
	if got := u.logs(t); got == "" {
		t.Error("a lock in Redis keeps the same name in the file taken")
	}
	release()
	u.shell(t, 0, "holdfast run --wait 30 nightly -- ./nightly.sh", store)
	if got := u.logs(t); !regexp.MustCompile(`^ran with token \d+\n$`).MatchString(got) {
		t.Errorf("after the holder: %q", got)
	}

	source := u.block(t, "README.md", "go", `"redis://127.0.0.1:6379"`)
	program := u.build(t, "invoice", strings.ReplaceAll(source, "redis://127.0.0.1:6379", at),
		"go get github.com/holdfast-go/holdfast/redisstore")
	release = u.hold(t, "invoice:42", store)
	if out := u.shell(t, 0, program); !strings.Contains(out, "held by sleep") {
		t.Errorf("beside the holder the program printed:\n%s", out)
	}
	release()
	if out := u.shell(t, 0, program); !strings.Contains(out, "mail with token") {
		t.Errorf("after the holder the program printed:\n%s", out)
	}
}

// verify tries to break the locks of the default store. If too little happens to judge, as on a busy machine, it runs
// for longer.
func (u *user) verify(t *testing.T) {
	const undecided = 69
	for d := 3 * time.Second; ; d *= 2 {
		line := fmt.Sprintf("holdfast verify --time %v --faults kill --seed 1; echo exit $?", d)
		out := u.shell(t, 0, line)
		switch {
		case strings.HasSuffix(out, "exit 0\n") && strings.Contains(out, "holdfast verify: HELD\n"):
			return
		case !strings.HasSuffix(out, fmt.Sprintf("exit %d\n", undecided)) || d > time.Minute:
			t.Fatalf("%s:\n%s", line, out)
		}
	}
}

// page opens the page in the way of a browser, and finds the lock that is held.
func (u *user) page(t *testing.T) {
	defer u.hold(t, "nightly")()
	out, end := u.start(t, u.env(), "holdfast", "ui", "--listen", "127.0.0.1:0")
	var address string
	testkit.Await(t, "holdfast ui prints its address", func() bool {
		address = regexp.MustCompile(`(?m)^http://127\.0\.0\.1:\d+/$`).FindString(read(t, out))
		return address != ""
	})
	for file, pattern := range map[string]string{
		"":           "<title>",
		"api/events": `"name":"nightly".*"label":"sleep"`, // which the page's scripts request
	} {
		if !finds(t, address+file, regexp.MustCompile(pattern)) {
			t.Errorf("/%s has no %s", file, pattern)
		}
	}
	if code := end(); code != 0 {
		t.Errorf("holdfast ui exits with %d", code)
	}
}

// finds reports whether a line of a response matches. It reads no further than that line.
func finds(t *testing.T, url string, pattern *regexp.Regexp) bool {
	t.Helper()
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: testkit.Patience}
	response, err := client.Get(url)
	testkit.Must(t, err)
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s", url, response.Status)
	}
	lines := bufio.NewScanner(response.Body)
	for lines.Scan() {
		if pattern.MatchString(lines.Text()) {
			return true
		}
	}
	return false
}
