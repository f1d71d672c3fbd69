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

// interrupts are the signals that end a command of holdfast's own that waits or serves.
var interrupts = []os.Signal{os.Interrupt, syscall.SIGTERM}

// listenTo is listen for signals that holdfast receives from now on, until end is called.
func listenTo(ctx context.Context, signals []os.Signal) (
	listening context.Context, stop func() os.Signal, end func(),
) {
	received := make(chan os.Signal, 1)
	notifyUnlessIgnored(received, signals)
	listening, stop = listen(ctx, received)
	return listening, stop, func() { signal.Stop(received) }
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
	running, stop, end := listenTo(ctx, endingSignals)
	defer end()
	err := do(running)
	if sig := stop(); sig != nil && errors.Is(err, context.Canceled) {
		return exitWith(exitSignal(sig), "%s was ended by a signal: %v", what, sig)
	}
	return err
}
