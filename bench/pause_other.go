//go:build !unix

package main

import (
	"errors"
	"os"
)

func suspendProcess(*os.Process) error { return errors.ErrUnsupported }

func resumeProcess(*os.Process) error { return errors.ErrUnsupported }
