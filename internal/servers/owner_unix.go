//go:build unix

package servers

import (
	"syscall"

	"github.com/holdfast-go/holdfast/internal/child"
)

// attributes are those of a process that the owner runs.
func (o *owner) attributes() *syscall.SysProcAttr {
	attributes := child.Attributes()
	if o != nil {
		attributes.Credential = &syscall.Credential{Uid: uint32(o.uid), Gid: uint32(o.gid)}
	}
	return attributes
}
