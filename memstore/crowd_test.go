package memstore_test

import (
	"testing"

	"github.com/holdfast-go/holdfast/lab/contend"
)

func TestStampede(t *testing.T) { contend.Stampede(t, contend.Herd{URL: "memory:"}) }
