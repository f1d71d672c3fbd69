package cli

import (
	"errors"
	"os"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast"
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
	inherit func() (end func(), err error) // has the command inherit what the store knows its life by; nil: nothing

	foreground bool // the command stays in the process group of holdfast

	killAfter *time.Duration // how long the command may take to end when holdfast is told to end; nil is for ever
}

// start starts the command by fork.
func (j *job) start(fork func() (pid int, err error)) (pid int, err error) {
	if j.inherit != nil {
		end, err := j.inherit()
		if err != nil {
			return 0, err
		}
		defer end()
	}
	return fork()
}

// sayLost says that the command must end, and why.
func (j *job) sayLost() {
	names := make([]string, len(j.names))
	for i, n := range j.names {
		names[i] = called(n)
	}
	why := j.watch.why
	if e, ok := errors.AsType[*holdfast.Error](why); ok {
		why = e.Err // what is lost is said here
	}
	lost := &holdfast.Error{Op: "lost " + strings.Join(names, ", "), Store: j.watch.store, Err: why}
	j.app.say("%v; the command must end", lost)
}
