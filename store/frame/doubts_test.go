package frame_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/store/frame"
)

// doubting calls test with doubts whose looks take a second, fail as often as said, and are noted.
func doubting(t *testing.T, failures int, test func(d *frame.Doubts[int], looks func() [][]int)) {
	t.Helper()
	synctest.Test(t, func(*testing.T) {
		f := frame.New(frame.Config{})
		defer f.Wait()
		defer f.End()
		mutex := frame.NewMutex(f)
		var looks [][]int
		d := frame.NewDoubts(f, frame.DoubtsConfig[int]{
			Mutex: mutex, Limit: time.Minute,
			Inspect: func(ctx context.Context, claims []int) error {
				slices.Sort(claims)
				mutex.Lock()
				looks = append(looks, claims)
				failed := len(looks) <= failures
				mutex.Unlock()
				select {
				case <-time.After(time.Second):
				case <-ctx.Done():
				}
				if failed {
					return errors.New("no answer")
				}
				return nil
			},
		})
		test(d, func() [][]int {
			mutex.Lock()
			defer mutex.Unlock()
			return looks
		})
	})
}

// addAll has claims inspected.
func addAll(d *frame.Doubts[int], claims ...int) {
	d.Mutex.Lock()
	defer d.Mutex.Unlock()
	for _, c := range claims {
		d.Add(c)
	}
}

func checkLooks(t *testing.T, got [][]int, want ...[]int) {
	t.Helper()
	if !slices.EqualFunc(got, want, slices.Equal[[]int]) {
		t.Errorf("the looks were at %v, want %v", got, want)
	}
}

// Claims that come into doubt at the same time are inspected together, those of later afterwards, and each once.
func TestDoubtsAreLookedAtTogether(t *testing.T) {
	doubting(t, 0, func(d *frame.Doubts[int], looks func() [][]int) {
		addAll(d, 1, 2)
		time.Sleep(500 * time.Millisecond)
		addAll(d, 2, 3)
		time.Sleep(time.Minute)
		checkLooks(t, looks(), []int{1, 2}, []int{2, 3})
	})
}

// A look that fails is repeated with those that have come meanwhile, and without those that have left.
func TestDoubtsAfterFailure(t *testing.T) {
	doubting(t, 2, func(d *frame.Doubts[int], looks func() [][]int) {
		addAll(d, 1, 2, 3)
		time.Sleep(500 * time.Millisecond)
		d.Mutex.Lock()
		d.Remove(2)
		d.Mutex.Unlock()
		time.Sleep(time.Minute)
		checkLooks(t, looks(), []int{1, 2, 3}, []int{1, 3}, []int{1, 3})
	})
}

// What has left before the look began is not inspected.
func TestDoubtIsRemoved(t *testing.T) {
	doubting(t, 0, func(d *frame.Doubts[int], looks func() [][]int) {
		addAll(d, 1)
		time.Sleep(500 * time.Millisecond)
		addAll(d, 2, 3)
		d.Mutex.Lock()
		d.Remove(3)
		d.Mutex.Unlock()
		time.Sleep(time.Minute)
		checkLooks(t, looks(), []int{1}, []int{2})
	})
}
