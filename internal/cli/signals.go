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

// listen returns a context that the first of signals ends. stop ends the listening, and returns that signal, or nil.
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

// exitSignal is the exit code for a signal.
func exitSignal(sig os.Signal) int {
	n, _ := sig.(syscall.Signal) // all signals are such
	return exitSignaled + int(n)
}
