//go:build unix

package sqlite

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/store"
)

// stranger is a user other than the one that runs the tests.
const stranger = 65533

// strangers gives a file to a stranger.
func strangers(t *testing.T, path string) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root can give files away")
	}
	check(t, os.Lchown(path, stranger, stranger))
}

func makeEmpty(t *testing.T, path string) {
	t.Helper()
	check(t, os.WriteFile(path, nil, 0o600))
}

func makeStrangers(t *testing.T, path string) {
	t.Helper()
	makeEmpty(t, path)
	strangers(t, path)
}

// TestOthersFilesAreRefused: another user has made the file before, or a part of it, or can replace it. The error
// says whose it is, and nothing is made or written.
func TestOthersFilesAreRefused(t *testing.T) {
	for what, c := range map[string]struct {
		prepare func(t *testing.T, path string)
		says    string
	}{
		"file": {func(t *testing.T, path string) { makeStrangers(t, path) }, "belongs to user 65533"},
		"wal":  {func(t *testing.T, path string) { makeStrangers(t, path+"-wal") }, "-wal belongs to"},
		"shm":  {func(t *testing.T, path string) { makeStrangers(t, path+"-shm") }, "-shm belongs to"},
		"wake": {func(t *testing.T, path string) {
			check(t, os.Mkdir(path+"-wake", 0o777))
			strangers(t, path+"-wake")
		}, "-wake belongs to"},
		"folder": {func(t *testing.T, path string) { strangers(t, filepath.Dir(path)) },
			"folder belongs to user 65533"},
		"link in a folder for all": {func(t *testing.T, path string) {
			check(t, os.Chmod(filepath.Dir(path), 0o777|fs.ModeSticky))
			check(t, os.Symlink(filepath.Join(t.TempDir(), "mine.db"), path))
			strangers(t, path)
		}, "the link"},
		"linked wake": {func(t *testing.T, path string) {
			check(t, os.Symlink(t.TempDir(), path+"-wake"))
		}, "not a folder"},
		"file that all can write": {func(t *testing.T, path string) {
			makeEmpty(t, path)
			check(t, os.Chmod(path, 0o666))
		}, "other users can write"},
		"folder that all can write": {func(t *testing.T, path string) {
			check(t, os.Chmod(filepath.Dir(path), 0o777))
		}, "other users can write to its folder"},
		"own link where others can replace it": {func(t *testing.T, path string) {
			check(t, os.Chmod(filepath.Dir(path), 0o777))
			check(t, os.Symlink(filepath.Join(t.TempDir(), "mine.db"), path))
		}, "the link"},
		"second name": {func(t *testing.T, path string) {
			mine := filepath.Join(filepath.Dir(path), "mine.db")
			makeEmpty(t, mine)
			check(t, os.Link(mine, path))
			check(t, os.Chmod(filepath.Dir(path), 0o777|fs.ModeSticky))
		}, "hard link"},
	} {
		t.Run(what, func(t *testing.T) {
			path := newPath(t)
			c.prepare(t, path)
			before := listed(t, filepath.Dir(path))
			locks, err := holdfast.Open(t.Context(), "sqlite:"+path)
			if err == nil {
				locks.Close()
				t.Fatal("it was opened")
			}
			if !strings.Contains(err.Error(), c.says) || !strings.Contains(err.Error(), "shared=yes") ||
				!store.Final(err) {
				t.Errorf("it says: %v", err)
			}
			if after := listed(t, filepath.Dir(path)); len(after) != len(before) {
				t.Errorf("before there was %v, and now %v", before, after)
			}
			locks, err = holdfast.Open(t.Context(), "sqlite:"+path+"?shared=yes")
			if err != nil {
				t.Fatalf("with shared=yes: %v", err)
			}
			check(t, locks.Close())
		})
	}
}

// TestOwnLinksAreFollowed also where others have links, and root's are.
func TestOwnLinksAreFollowed(t *testing.T) {
	path := newPath(t)
	link := link(t, path)
	check(t, os.Chmod(filepath.Dir(link), 0o777|fs.ModeSticky))
	if e := open(t, link); e.path != path {
		t.Errorf("it is at %s", e.path)
	}
}

// TestReplacedByOthers: the file of a running client is taken away, and another user puts a link or a file of his own
// in its place.
func TestReplacedByOthers(t *testing.T) {
	for _, what := range []string{"file", "link"} {
		path, mine := newPath(t), newPath(t)
		e := open(t, path)
		check(t, os.Remove(path))
		if what == "link" {
			check(t, os.Symlink(mine, path))
		} else {
			makeEmpty(t, path)
		}
		strangers(t, path)
		if _, err := e.Join(t.Context(), newClaim("x")); !store.Final(err) ||
			!strings.Contains(err.Error(), "shared=yes") {
			t.Errorf("%s: %v", what, err)
		}
		if exists(mine) {
			t.Error("a file was made where the link leads")
		}
	}
}

// TestSharedModes: what is made for a group can be used by it.
func TestSharedModes(t *testing.T) {
	path := newPath(t)
	e := open(t, path, WithShared())
	join(t, e, newClaim("x"), store.Held)
	for name, want := range map[string]fs.FileMode{
		path: 0o660, path + "-wal": 0o660, path + "-shm": 0o660, path + "-wake": 0o770,
		e.notifier.path(e.notifier.name()): 0o770,
	} {
		info, err := os.Lstat(name)
		if err != nil || info.Mode().Perm() != want {
			t.Errorf("%s: %v, %v, want %v", name, info.Mode(), err, want)
		}
	}
}

// TestShareFollowsNoLink: another of the group has put a link in the place of a socket, or of their folder. The file
// that it leads to stays as private as it is.
func TestShareFollowsNoLink(t *testing.T) {
	folder := t.TempDir()
	like, link, mine := filepath.Join(folder, "locks.db"), filepath.Join(folder, "link"), filepath.Join(folder, "mine")
	makeEmpty(t, like)
	check(t, os.Chmod(like, 0o666))
	makeEmpty(t, mine)
	check(t, os.Symlink(mine, link))
	share(link, like)
	if info, err := os.Lstat(mine); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
}

// TestQueueIsPrivate: another user can neither lock the queue nor enter its folder.
func TestQueueIsPrivate(t *testing.T) {
	path := newPath(t)
	old := syscall.Umask(0)
	defer syscall.Umask(old)
	e := open(t, path)
	e.queue.enter()
	defer e.queue.leave()
	if info, err := os.Lstat(e.queue.folder); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
}
