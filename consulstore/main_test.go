package consulstore_test

import (
	"testing"

	"github.com/holdfast-go/holdfast/internal/testkit"
)

// Consul ends a session after twice its ttl, so that tests here wait more than others do, and use a processor less.
func TestMain(m *testing.M) { testkit.Main(m, 2) }
