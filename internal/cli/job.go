package cli

import (
	"os"
	"strings"
	"time"
)

// A job is a command that runs under a grip. How it is run depends on the system: see job_unix.go and job_windows.go.
type job struct {
	path    string
	argv    []string
	env     []string
	files   [3]*os.File
	watch   *watch
	signals chan os.Signal // what reaches holdfast while the command runs
	names   []string
	app     *app

	foreground bool // the command stays in the process group of holdfast

	killAfter *time.Duration // how long the command may take to end when holdfast is told to end; nil is for ever
}

// sayLost says that the command must end, and why.
func (j *job) sayLost() {
	names := make([]string, len(j.names))
	for i, n := range j.names {
		names[i] = shown(n)
	}
	j.app.say("lost %s, so the command must end: %v", strings.Join(names, ", "), j.watch.why)
}
