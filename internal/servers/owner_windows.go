package servers

import (
	"syscall"

	"github.com/holdfast-go/holdfast/internal/child"
)

// There is no root that a server would refuse.
func (o *owner) attributes() *syscall.SysProcAttr { return child.Attributes() }
