package consulstore_test

import (
	"testing"

	"github.com/holdfast-go/holdfast/internal/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }
