package storetest_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/holdfast-go/holdfast/internal/memharness"
	"github.com/holdfast-go/holdfast/store/storetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestHonestStorePasses shows that the suite asks nothing that a correct store cannot do.
func TestHonestStorePasses(t *testing.T) {
	storetest.RunFake(t, memharness.New)
}
