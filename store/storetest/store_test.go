package storetest_test

import (
	"testing"

	"github.com/holdfast-go/holdfast/internal/leaks"
	"github.com/holdfast-go/holdfast/internal/memharness"
	"github.com/holdfast-go/holdfast/store/storetest"
)

func TestMain(m *testing.M) { leaks.Main(m) }

// TestHonestStorePasses shows that a correct store passes the suite.
func TestHonestStorePasses(t *testing.T) {
	storetest.RunFake(t, memharness.New)
}
