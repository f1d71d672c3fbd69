//go:build unix

package sqlite

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// resolve returns a path that is the same for all processes: absolute, and without symbolic links, since the sockets
// are beside the file itself. Unless the file is shared, it does not follow links that another user can have created.
func resolve(path string, shared bool) (string, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	direct, rest := "/", strings.Split(path, "/")
	for links := 0; len(rest) > 0; {
		next := filepath.Join(direct, rest[0])
		info, err := os.Lstat(next)
		if err != nil { // it does not exist yet, or opening it reports why
			return filepath.Join(append([]string{direct}, rest...)...), nil //nolint:nilerr // see above
		}
		rest = rest[1:]
		if info.Mode().Type() != fs.ModeSymlink {
			direct = next
			continue
		}
		if links++; links > mostLinks {
			return "", fmt.Errorf("%s: %w", path, syscall.ELOOP)
		}
		if !shared {
			if err := checkLink(next, info); err != nil {
				return "", err
			}
		}
		target, err := os.Readlink(next)
		if err != nil {
			return "", err
		}
		if filepath.IsAbs(target) {
			direct = "/"
		}
		rest = append(strings.Split(target, "/"), rest...)
	}
	return direct, nil
}

// mostLinks is how many links are followed, as many as the kernel follows.
const mostLinks = 40

// checkLink returns an error for a link that another user can have created.
func checkLink(path string, link fs.FileInfo) error {
	folder, err := os.Lstat(filepath.Dir(path))
	switch {
	case err != nil:
		return err
	case !trusted(folder), writable(folder) && (!sticky(folder) || !trusted(link)):
		return othersCan("the link %s belongs to %s, or others can replace it", path, owner(link))
	}
	return nil
}

// checkFiles returns an error for a file that another user owns, or can replace or write, and for such a file of SQLite
// beside it.
func checkFiles(path string) error {
	folder, err := os.Lstat(filepath.Dir(path))
	switch {
	case err != nil:
		return err
	case !trusted(folder):
		return othersCan("its folder belongs to %s", owner(folder))
	case writable(folder) && !sticky(folder):
		return othersCan("other users can write to its folder")
	}
	for _, name := range []string{path, path + "-wal", path + "-shm"} {
		info, err := os.Lstat(name)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			continue
		case err != nil:
			return err
		case info.Mode().Type() == fs.ModeSymlink:
			return othersCan("a link was put in the place of %s", name)
		case !trusted(info):
			return othersCan("the file %s belongs to %s", name, owner(info))
		case writable(info):
			return othersCan("other users can write to %s", name)
		case writable(folder) && stat(info).Nlink > 1:
			return othersCan("%s has a second name (a hard link), which another user can have made", name)
		}
	}
	if err := checkFolder(path + "-wake"); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// checkFolder returns an error for a folder of sockets that another user owns or can write to.
func checkFolder(path string) error {
	info, err := os.Lstat(path)
	switch {
	case err != nil:
		return err
	case !info.IsDir():
		return othersCan("%s is not a folder", path)
	case !trusted(info):
		return othersCan("the folder %s belongs to %s", path, owner(info))
	case writable(info):
		return othersCan("other users can write to the folder %s", path)
	}
	return nil
}

func stat(info fs.FileInfo) *syscall.Stat_t { return info.Sys().(*syscall.Stat_t) }

// trusted reports whether a file's owner is this user, root, or the owner of the root folder, which is root's number in
// a user namespace.
func trusted(info fs.FileInfo) bool {
	uid := stat(info).Uid
	if uid == uint32(os.Geteuid()) || uid == 0 {
		return true
	}
	root, err := os.Lstat("/")
	return err == nil && uid == stat(root).Uid
}

// writable reports whether other users can write to a file. A group with the user's number is taken for the user's own;
// it and root's group have no other members.
func writable(info fs.FileInfo) bool {
	gid, mode := int(stat(info).Gid), info.Mode()
	private := gid == 0 || gid == os.Getegid() && gid == os.Geteuid()
	return mode&0o002 != 0 || mode&0o020 != 0 && !private
}

// sticky reports whether a file in a folder can be removed or renamed only by its owner.
func sticky(folder fs.FileInfo) bool { return folder.Mode()&fs.ModeSticky != 0 }

// owner returns the name of a file's owner.
func owner(info fs.FileInfo) string {
	uid := strconv.FormatUint(uint64(stat(info).Uid), 10)
	if u, err := user.LookupId(uid); err == nil {
		return "user " + u.Username
	}
	return "user " + uid
}

// belongsTo returns the name of the owner of the file at path if it is another user, and "" otherwise.
func belongsTo(path string) string {
	info, err := os.Lstat(path)
	if err != nil || stat(info).Uid == uint32(os.Geteuid()) {
		return ""
	}
	return owner(info)
}

// share gives the group of a socket, or of a folder of sockets, the access that it has to the file like.
func share(path, like string) {
	info, err := os.Lstat(path)
	model, err2 := os.Lstat(like)
	if err != nil || err2 != nil || stat(info).Gid != stat(model).Gid {
		return
	}
	mode := model.Mode().Perm()
	mode |= mode>>1&0o111 | mode>>2&0o111
	if info.Mode()&fs.ModeSetgid != 0 {
		mode |= syscall.S_ISGID
	}
	_ = chmod(path, uint32(mode))
}

// inode returns the inode number of a file. No other file has it while this one is open.
func inode(info fs.FileInfo) string { return strconv.FormatUint(stat(info).Ino, 36) }
