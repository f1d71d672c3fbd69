package holdfast

import (
	"net"
	"os"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/store"
)

// thisProcess describes the process to people who look at a line. What the machine does not tell stays empty.
var thisProcess = sync.OnceValue(func() store.Owner {
	host, _ := os.Hostname() // a nameless host is shown without a name
	return store.Owner{Host: host, Address: firstAddress(), PID: os.Getpid()}
})

// newOwner is the owner of a client's claims.
func newOwner(started time.Time) *store.Owner {
	o := thisProcess()
	o.Started = started.Round(0)
	return &o
}

// firstAddress is an address by which others may know this machine, for hosts that all have the same name.
func firstAddress() string {
	addresses, err := net.InterfaceAddrs()
	if err != nil {
		return ""
	}
	for _, a := range addresses {
		if n, ok := a.(*net.IPNet); ok && n.IP.IsGlobalUnicast() {
			return n.IP.String()
		}
	}
	return ""
}
