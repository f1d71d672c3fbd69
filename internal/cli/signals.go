package cli

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

// notifyUnlessIgnored asks for signals, except for those that holdfast was told to ignore from the start, as nohup does.
func notifyUnlessIgnored(c chan<- os.Signal, signals []os.Signal) {
	for _, s := range signals {
		if !signal.Ignored(s) {
			signal.Notify(c, s)
		}
	}
}

// A listener is a context that a signal ends, while a lock is waited for.
type listener struct {
	context.Context
	cancel  context.CancelFunc
	stopped chan struct{}
	got     os.Signal
}

// listen takes signals until stop.
func listen(ctx context.Context, signals <-chan os.Signal) *listener {
	l := &listener{stopped: make(chan struct{})}
	l.Context, l.cancel = context.WithCancel(ctx)
	go func() {
		defer close(l.stopped)
		select {
		case l.got = <-signals:
			l.cancel()
		case <-l.Done():
		}
	}()
	return l
}

// stop ends the listening. It returns the signal that came, if one did.
func (l *listener) stop() os.Signal {
	l.cancel()
	<-l.stopped
	return l.got
}

// endedBy ends the program because a signal came while it waited.
func (a *app) endedBy(sig os.Signal) error {
	n, _ := sig.(syscall.Signal) // all signals are such
	if n == syscall.SIGINT {
		a.last = dieOfInterrupt
	}
	return exitWith(exitSignaled+int(n), "ended by a signal while waiting: %v", sig)
}
