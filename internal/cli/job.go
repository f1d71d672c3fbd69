package cli

import (
	"errors"
	"os"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/store"
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
	inherit func() (end func(), err error) // has the command inherit what the store knows its life by

	foreground bool           // the command stays in the process group of holdfast
	killAfter  *time.Duration // how long the command may take to end when holdfast is told to end; nil is for ever
}

// sayLost says that the command must end, and why.
func (j *job) sayLost() {
	names := make([]string, len(j.names))
	for i, n := range j.names {
		names[i] = store.Shown(n)
	}
	why := j.watch.why
	if e, ok := errors.AsType[*holdfast.Error](why); ok {
		why = e.Err // what is lost is said here
	}
	lost := &holdfast.Error{Op: "lost " + strings.Join(names, ", "), Store: j.watch.store, Err: why}
	j.app.say("%v; the command must end", lost)
}
