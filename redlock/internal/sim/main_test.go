package sim

import (
	"testing"

	"github.com/holdfast-go/holdfast/internal/leaks"
)

func TestMain(m *testing.M) { leaks.Main(m) }
