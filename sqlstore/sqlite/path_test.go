//go:build unix

package sqlite

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/holdfast-go/holdfast/store"
)

// link makes a symbolic link in a folder of its own.
func link(t *testing.T, target string) string {
	t.Helper()
	at := filepath.Join(t.TempDir(), "link.db")
	check(t, os.Symlink(target, at))
	return at
}

// TestSymlink: a client that opens the file by another name is notified of its grants too.
func TestSymlink(t *testing.T) {
	path := newPath(t)
	a := open(t, path)
	b := open(t, link(t, path))
	folder := link(t, filepath.Dir(path))
	c := open(t, filepath.Join(folder, filepath.Base(path)))
	holder := joined(t, a, "x", store.Held)
	for _, e := range []*engine{b, c} {
		told := heard(t, e)
		next := joined(t, e, "x", store.Waiting)
		check(t, a.Leave(t.Context(), holder))
		wantPush(t, told, next.ID)
		holder = next
	}
}

// TestDanglingSymlink: a file that is made at the end of links is as private as any other.
func TestDanglingSymlink(t *testing.T) {
	path := newPath(t)
	e := open(t, link(t, link(t, path)))
	if want, err := filepath.EvalSymlinks(path); err != nil || e.path != want {
		t.Errorf("opened %s, want %s (%v)", e.path, want, err)
	}
	info, err := os.Stat(path)
	check(t, err)
	if info.Mode().Perm() != 0o600 {
		t.Errorf("it has mode %v", info.Mode())
	}

	dir := t.TempDir()
	relative := filepath.Join(dir, "link.db")
	check(t, os.Symlink("real.db", relative))
	open(t, relative)
	if _, err := os.Stat(filepath.Join(dir, "real.db")); err != nil {
		t.Errorf("a link that is relative to its folder: %v", err)
	}
}
