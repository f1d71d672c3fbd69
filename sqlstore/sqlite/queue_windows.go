package sqlite

import (
	"errors"
	"os"
)

// Windows cannot lock a folder.

func tryLockFolder(*os.File, bool) (busy bool, err error) { return false, errors.ErrUnsupported }

func lockFolder(*os.File) error { return errors.ErrUnsupported }
