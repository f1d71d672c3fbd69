package mysql_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/holdfast-go/holdfast/internal/servers"
	"github.com/holdfast-go/holdfast/internal/testkit"
	"github.com/holdfast-go/holdfast/store"
)

// TestDiskFull: a disk that is full takes in no new claims, and the error says so. What is held is kept, and when there
// is room again all works.
func TestDiskFull(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	folder := filepath.Join(h.server.Dir(), "data", database)
	info, err := os.Stat(folder)
	testkit.Must(t, err)
	owner := info.Sys().(*syscall.Stat_t)
	err = syscall.Mount("tmpfs", folder, "tmpfs", 0,
		fmt.Sprintf("size=4m,mode=700,uid=%d,gid=%d", owner.Uid, owner.Gid))
	if errors.Is(err, syscall.EPERM) {
		servers.LeaveOut(t, "this user may not mount a file system")
	}
	testkit.Must(t, err)
	t.Cleanup(func() { testkit.Check(t, syscall.Unmount(folder, syscall.MNT_DETACH)) })
	s := h.open(t)
	held := testkit.Held(t, s, claim("held"))
	filler := filepath.Join(folder, "filler")
	fill(t, filler)

	for n := 0; err == nil; n++ {
		if n == 10000 {
			t.Fatal("the disk is never full")
		}
		c := claim(fmt.Sprint("more ", n))
		c.Owner = &store.Owner{Label: strings.Repeat("long ", 100)}
		_, err = s.Join(t.Context(), c)
	}
	testkit.CheckFault(t, err, false, "the disk is full", h.server.Addr())
	testkit.Keep(t, s, held, store.Held)
	testkit.Must(t, os.Remove(filler))
	checkWorks(t, s)
}

// fill writes a file until there is no room for more.
func fill(t *testing.T, path string) {
	t.Helper()
	f, err := os.Create(path)
	testkit.Must(t, err)
	defer f.Close()
	for err == nil {
		_, err = f.Write(make([]byte, 4<<10))
	}
	if !errors.Is(err, syscall.ENOSPC) {
		t.Fatal(err)
	}
}
