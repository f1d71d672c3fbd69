package servers

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
)

// Outside starts servers for a program that is not a test. start calls the functions of this package with t, which
// replaces the test. If one of them fails, Outside returns its error, and ends the servers that had started. stop ends
// the servers and removes their folders. If ctx is done while a server starts, the start is not interrupted, but the
// server is ended before Outside returns.
func Outside(ctx context.Context, start func(t testing.TB)) (stop func() error, err error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	o := &outside{ctx: ctx}
	if o.try(start); ctx.Err() != nil {
		o.errs = append(o.errs, ctx.Err())
	}
	if len(o.errs) > 0 {
		return nil, o.stop()
	}
	return o.stop, nil
}

// outside replaces the test.
type outside struct {
	testing.TB // nil: what is not below is not called
	ctx        context.Context
	errs       []error
	cleanups   []func()
}

// try calls start. It returns when start returns or fails.
func (o *outside) try(start func(testing.TB)) {
	defer func() {
		if r := recover(); r != nil && r != any(o) {
			panic(r)
		}
	}()
	start(o)
}

func (o *outside) stop() error {
	for _, cleanup := range slices.Backward(o.cleanups) {
		cleanup()
	}
	return errors.Join(o.errs...)
}

func (o *outside) Helper()                   {}
func (o *outside) Context() context.Context  { return o.ctx }
func (o *outside) Failed() bool              { return false } // folders are removed: the error has the end of the log
func (o *outside) Cleanup(f func())          { o.cleanups = append(o.cleanups, f) }
func (o *outside) Errorf(s string, a ...any) { o.errs = append(o.errs, fmt.Errorf(s, a...)) }

func (o *outside) Fatal(a ...any) { o.Fatalf("%s", fmt.Sprint(a...)) }

func (o *outside) Fatalf(s string, a ...any) {
	o.Errorf(s, a...)
	panic(o)
}

func (o *outside) Skipf(s string, a ...any) { o.Fatalf(s, a...) }
