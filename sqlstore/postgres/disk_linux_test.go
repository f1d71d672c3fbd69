package postgres_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/servers"
	"github.com/holdfast-go/holdfast/internal/testkit"
	"github.com/holdfast-go/holdfast/store"
)

// A full disk accepts no new claims, and the error says so. A caller that waits for space succeeds when there is some.
func TestDiskFull(t *testing.T) {
	t.Parallel()
	server := servers.Postgres(t)
	disk := smallDisk(t, server)
	s := openAt(t, urlAt(server.Addr()))
	execute(t, server.DB(t), "CREATE TABLESPACE small LOCATION '"+disk+"'",
		"ALTER TABLE holdfast.claims SET TABLESPACE small")
	held := testkit.Held(t, s, testkit.Claim("held", time.Minute))
	filler := filepath.Join(filepath.Dir(disk), "filler")
	fill(t, filler)

	var err error
	for n := 0; err == nil; n++ {
		if n == 10000 {
			t.Fatal("the disk is never full")
		}
		c := testkit.Claim(fmt.Sprint("more ", n), time.Minute)
		c.Owner = &store.Owner{Label: strings.Repeat("long ", 100)}
		_, err = s.Join(t.Context(), c)
	}
	testkit.CheckFault(t, err, false, "the disk is full", server.Addr())
	testkit.Must(t, os.Remove(filler))
	testkit.Keep(t, s, held, store.Held)
	testkit.CheckWorks(t, s)
}

// smallDisk mounts a small file system and returns an empty folder in it that belongs to the server's user.
func smallDisk(t *testing.T, server *servers.PostgresServer) string {
	t.Helper()
	top := filepath.Join(server.Dir(), "disk")
	testkit.Must(t, os.Mkdir(top, 0o755))
	err := syscall.Mount("tmpfs", top, "tmpfs", 0, "size=1m,mode=755")
	if errors.Is(err, syscall.EPERM) {
		servers.LeaveOut(t, "this user may not mount a file system")
	}
	testkit.Must(t, err)
	t.Cleanup(func() { testkit.Check(t, syscall.Unmount(top, syscall.MNT_DETACH)) })
	info, err := os.Stat(server.Dir())
	testkit.Must(t, err)
	owner := info.Sys().(*syscall.Stat_t)
	dir := filepath.Join(top, "tables")
	testkit.Must(t, os.Mkdir(dir, 0o700))
	testkit.Must(t, os.Chown(dir, int(owner.Uid), int(owner.Gid)))
	return dir
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
