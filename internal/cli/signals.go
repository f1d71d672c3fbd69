package cli

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"syscall"
)

// notifyUnlessIgnored subscribes to signals, except for those that were ignored when holdfast started, as by nohup.
func notifyUnlessIgnored(c chan<- os.Signal, signals []os.Signal) {
	for _, s := range signals {
		if !signal.Ignored(s) {
			signal.Notify(c, s)
		}
	}
}

// listen returns a context that ends with the first of signals. stop ends it too, and returns that signal, or nil.
func listen(ctx context.Context, signals <-chan os.Signal) (listening context.Context, stop func() os.Signal) {
	listening, cancel := context.WithCancel(ctx)
	got := make(chan os.Signal, 1)
	go func() {
		defer cancel()
		select {
		case sig := <-signals:
			got <- sig
		case <-listening.Done():
			got <- nil
		}
	}()
	return listening, func() os.Signal { cancel(); return <-got }
}

// exitSignal returns the exit code for a signal.
func exitSignal(sig os.Signal) int {
	n, _ := sig.(syscall.Signal) // all signals have this type
	return exitSignaled + int(n)
}

// endedBy returns the error of a call that a signal ended while it waited. Of an interrupt the process dies, as shells
// expect.
func (a *app) endedBy(sig os.Signal) error {
	if sig == syscall.SIGINT {
		a.last = dieOfInterrupt
	}
	return exitWith(exitSignal(sig), "ended by a signal while waiting: %v", sig)
}

// untilSignal calls do with a context that ends with the first signal. what is what the signal ends, in the error.
func untilSignal(ctx context.Context, what string, do func(context.Context) error) error {
	signals := make(chan os.Signal, 1)
	notifyUnlessIgnored(signals, endingSignals)
	defer signal.Stop(signals)
	running, stop := listen(ctx, signals)
	err := do(running)
	if sig := stop(); sig != nil && errors.Is(err, context.Canceled) {
		return exitWith(exitSignal(sig), "%s was ended by a signal: %v", what, sig)
	}
	return err
}
