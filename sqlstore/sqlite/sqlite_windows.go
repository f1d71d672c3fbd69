package sqlite

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// resolve returns a path that is the same for all processes: absolute, and without symbolic links, since the sockets
// are beside the file itself.
func resolve(path string, _ bool) (string, error) {
	path, err := filepath.Abs(path)
	for range 40 { // links that lead to links
		if err != nil {
			break
		}
		if direct, err := filepath.EvalSymlinks(path); err == nil {
			return direct, nil
		}
		target, notLink := os.Readlink(path)
		if notLink != nil { // it is not there yet
			if folder, err := filepath.EvalSymlinks(filepath.Dir(path)); err == nil {
				path = filepath.Join(folder, filepath.Base(path))
			}
			return path, nil
		}
		if !filepath.IsAbs(target) {
			target = filepath.Join(filepath.Dir(path), target)
		}
		path = target
	}
	return path, err
}

// Windows: which users can replace a file is not checked.

func checkFiles(string) error { return nil }

func checkFolder(string) error { return nil }

func belongsTo(string) string { return "" }

func share(string, string) {}

// inode is of no use on Windows, which has no datagram sockets.
func inode(fs.FileInfo) string { return "" }

// inherit has nothing to open either.
func (b *notifier) inherit() (end func(), err error) { return func() {}, nil }

// Windows cannot lock a folder.

func tryLockFolder(*os.File, bool) (busy bool, err error) { return false, errors.ErrUnsupported }

func lockFolder(*os.File) error { return errors.ErrUnsupported }
