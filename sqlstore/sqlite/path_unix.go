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

// resolve makes a path one that all processes mean alike: absolute, and without symbolic links, since the sockets lie
// beside the file itself. Unless the file is shared, it follows no link that another user can have put there.
func resolve(path string, shared bool) (string, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	direct, rest := "/", strings.Split(path, "/")
	for links := 0; len(rest) > 0; {
		next := filepath.Join(direct, rest[0])
		info, err := os.Lstat(next)
		if err != nil { // it is not there yet, or opening it says why not
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

// mostLinks is how many links are followed, as the kernel has it.
const mostLinks = 40

// checkLink refuses a link that another user can have put there.
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

// checkFiles refuses a file that another user owns, or can replace or write, by itself or what SQLite keeps beside it.
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

// checkFolder refuses a folder of sockets that another user owns or can write to.
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

// trusted reports whether a file's owner is this user, or one who can do everything anyway: root, or the owner of the
// root folder, which is who root appears to be in a user namespace.
func trusted(info fs.FileInfo) bool {
	uid := stat(info).Uid
	if uid == uint32(os.Geteuid()) || uid == 0 {
		return true
	}
	root, err := os.Lstat("/")
	return err == nil && uid == stat(root).Uid
}

// writable reports whether other users can write to a file. A user's own group, which has the user's number, and
// root's are nobody else's.
func writable(info fs.FileInfo) bool {
	gid, mode := int(stat(info).Gid), info.Mode()
	private := gid == 0 || gid == os.Getegid() && gid == os.Geteuid()
	return mode&0o002 != 0 || mode&0o020 != 0 && !private
}

// sticky reports whether only its owner can remove or rename what is in a folder.
func sticky(folder fs.FileInfo) bool { return folder.Mode()&fs.ModeSticky != 0 }

// owner names the owner of a file.
func owner(info fs.FileInfo) string {
	uid := strconv.FormatUint(uint64(stat(info).Uid), 10)
	if u, err := user.LookupId(uid); err == nil {
		return "user " + u.Username
	}
	return "user " + uid
}

// belongsTo names the owner of the file at path if it is another user, or is empty.
func belongsTo(path string) string {
	info, err := os.Lstat(path)
	if err != nil || stat(info).Uid == uint32(os.Geteuid()) {
		return ""
	}
	return owner(info)
}

// share lets those use a socket, or a folder of sockets, who can use the file like, as far as their group is the same.
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

// inode is the number of a file on its disk. No other file has it while this one is open.
func inode(info fs.FileInfo) string { return strconv.FormatUint(stat(info).Ino, 36) }
