package storetest_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/store/storetest"
)

// landing sends requests over a pipe and records the order in which they arrive.
type landing struct {
	*storetest.Pipe
	landed []int
}

// send sends request n in a goroutine of its own. Its result is the caller's.
func (l *landing) send(ctx context.Context, n int) <-chan error {
	result := make(chan error, 1)
	go func() { result <- l.Call(ctx, func() { l.landed = append(l.landed, n) }) }()
	synctest.Wait()
	return result
}

func (l *landing) check(t *testing.T, want ...int) {
	t.Helper()
	if !slices.Equal(l.landed, want) {
		t.Errorf("landed: %v, want %v", l.landed, want)
	}
}

func inBubble(t *testing.T, fn func(*testing.T, *landing)) {
	synctest.Test(t, func(t *testing.T) { fn(t, &landing{Pipe: storetest.NewPipe()}) })
}

func TestPipeHoldsRequests(t *testing.T) {
	inBubble(t, func(t *testing.T, l *landing) {
		release := l.HoldRequests()
		again := l.HoldRequests()
		impatient, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		first, second := l.send(impatient, 1), l.send(t.Context(), 2)
		if err := <-first; !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("the first caller got %v", err)
		}
		release()
		release()
		l.check(t) // the other hold is still on
		again()
		if err := <-second; err != nil {
			t.Errorf("the second caller got %v", err)
		}
		l.check(t, 1, 2) // in order, also the one whose caller has given up
	})
}

func TestPipeHoldsReplies(t *testing.T) {
	inBubble(t, func(t *testing.T, l *landing) {
		release := l.HoldReplies()
		result := l.send(t.Context(), 1)
		l.check(t, 1)
		if len(result) > 0 {
			t.Error("the response arrived though replies are held")
		}
		release()
		if err := <-result; err != nil {
			t.Errorf("the caller got %v", err)
		}
	})
}

func TestPipeNeverReorders(t *testing.T) {
	inBubble(t, func(t *testing.T, l *landing) {
		release := l.HoldRequests()
		l.send(t.Context(), 1)
		// While the first lands, another is sent. It comes after the second, which was there before it.
		overtaker := make(chan error, 1)
		go func() {
			overtaker <- l.Call(t.Context(), func() {
				go func() { _ = l.Call(t.Context(), func() { l.landed = append(l.landed, 4) }) }()
				synctest.Wait()
				l.landed = append(l.landed, 2)
			})
		}()
		synctest.Wait()
		l.send(t.Context(), 3)
		release()
		synctest.Wait()
		l.check(t, 1, 2, 3, 4)
	})
}

func TestPipeCut(t *testing.T) {
	inBubble(t, func(t *testing.T, l *landing) {
		release := l.HoldRequests()
		held := l.send(t.Context(), 1)
		l.Cut()
		l.Cut()
		if err := <-held; err == nil {
			t.Error("a call under way survived the cut")
		}
		if err := <-l.send(t.Context(), 2); err == nil {
			t.Error("a call got through a link that is cut")
		}
		l.Push(func() { t.Error("a push got through a link that is cut") })
		l.Heal()
		release()
		l.check(t) // what was held is lost for ever
		if err := <-l.send(t.Context(), 3); err != nil {
			t.Errorf("a call over the healed link: %v", err)
		}
		l.check(t, 3)
	})
}

// The response is released between the cut and the moment at which its caller checks for it.
func TestPipeLosesAnswersWithTheConnection(t *testing.T) {
	inBubble(t, func(t *testing.T, l *landing) {
		release := l.HoldReplies()
		result := l.send(t.Context(), 1)
		l.Cut()
		l.Heal()
		release()
		if err := <-result; err == nil {
			t.Error("a response of the old connection arrived over the new one")
		}
	})
}

func TestPipeKill(t *testing.T) {
	inBubble(t, func(t *testing.T, l *landing) {
		l.Kill()
		l.Heal()
		if err := <-l.send(t.Context(), 1); err == nil {
			t.Error("a dead client's call got through")
		}
		l.check(t)
	})
}

func TestPipePushes(t *testing.T) {
	pipe := storetest.NewPipe()
	var pushed []int
	push := func(n int) { pipe.Push(func() { pushed = append(pushed, n) }) }
	push(1)
	release := pipe.HoldPushes()
	push(2)
	push(3)
	if !slices.Equal(pushed, []int{1}) {
		t.Errorf("pushed: %v though pushes are held", pushed)
	}
	pipe.DropPushes(true)
	push(4)
	pipe.DropPushes(false)
	release()
	push(5)
	if !slices.Equal(pushed, []int{1, 2, 3, 5}) {
		t.Errorf("pushed: %v, want 1, 2, 3 and 5", pushed)
	}
}
