package storetest_test

import (
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/memharness"
	"github.com/holdfast-go/holdfast/store/storetest"
)

type sleeper struct{ storetest.Harness }

func (s sleeper) Advance(d time.Duration) { time.Sleep(d) }

func TestZZReal(t *testing.T) {
	storetest.Run(t, func(t testing.TB) storetest.Harness { return sleeper{memharness.New(t)} })
}
