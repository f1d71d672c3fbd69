//go:build !unix

package servers

import (
	"errors"
	"os"
)

func killAll(p *os.Process) error { return p.Kill() }

func suspend(*os.Process) error { return errors.ErrUnsupported }

func resume(*os.Process) error { return errors.ErrUnsupported }
