package cli

import (
	"context"
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
