package servers

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// fillFresh creates the data of a fresh server with a program that is run once per machine: later servers get a copy
// from the cache, under a name that depends on the versions, the arguments and the user. The data folder is the last
// argument, after folderFlag.
func (s *Server) fillFresh(program, folderFlag string, args ...string) error {
	version, err := exec.Command(s.path, "--version").Output()
	if err != nil {
		return fmt.Errorf("%s --version: %w", s.path, err)
	}
	cache, err := cacheDir()
	if err != nil {
		return err
	}
	made := append([]string{string(version), program, fmt.Sprint(s.owner)}, args...)
	sum := sha256.Sum256([]byte(strings.Join(made, "\x00")))
	fresh := filepath.Join(cache, fmt.Sprintf("%s-data-%x", s.program, sum[:6]))
	if _, err := os.Stat(fresh); !errors.Is(err, fs.ErrNotExist) {
		return errors.Join(err, copyFolder(fresh, s.dataDir()))
	}
	if err := s.run(program, append(args, folderFlag+s.dataDir())...); err != nil {
		return err
	}
	return s.keepFresh(fresh)
}

// keepFresh copies the data into the cache, atomically for other processes. Another test binary may do so first.
func (s *Server) keepFresh(fresh string) error {
	if err := os.MkdirAll(filepath.Dir(fresh), 0o755); err != nil {
		return err
	}
	half := fmt.Sprintf("%s.%d.%d", fresh, os.Getpid(), time.Now().UnixNano())
	defer os.RemoveAll(half) //nolint:errcheck // it has another name by now, or is not needed
	if err := errors.Join(os.Mkdir(half, 0o700), copyFolder(s.dataDir(), half)); err != nil {
		return err
	}
	if err := os.Rename(half, fresh); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return nil
}

// copyFolder copies what is in a folder, with owners and modes, into another, which takes on those of the first.
func copyFolder(from, to string) error {
	if said, err := exec.Command("cp", "-a", from+"/.", to).CombinedOutput(); err != nil {
		return fmt.Errorf("cp: %w: %s", err, said)
	}
	return nil
}
