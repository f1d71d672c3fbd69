package sqlite

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/store"
)

func init() {
	childJobs["read-only"] = childReadOnly
	childJobs["full"] = childFull
}

// TestReadOnly runs as a user that may only read, since root may write everything.
func TestReadOnly(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "locks.db")
	openClient(t, path).Close()
	for _, p := range []string{dir, filepath.Dir(dir)} {
		check(t, os.Chmod(p, 0o555))
	}
	check(t, os.Chmod(path, 0o444))
	t.Cleanup(func() { _, _ = os.Chmod(filepath.Dir(dir), 0o755), os.Chmod(dir, 0o755) })
	cmd := childCommand(t, "read-only", path)
	asNobody(t, cmd)
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if got := string(out); !strings.Contains(got, "read-only") || !strings.Contains(got, "final true") ||
		!strings.Contains(got, path) {
		t.Errorf("got %q", got)
	}
}

func childReadOnly(args []string) error {
	locks, err := openAnd(args[0])
	if err == nil {
		locks.Close()
		return errors.New("it was opened and locked")
	}
	fmt.Printf("%v, final %v\n", err, store.Final(err))
	return nil
}

// openAnd opens a store and takes a lock and gives it back.
func openAnd(path string) (*holdfast.Client, error) {
	ctx, cancel := deadline(30 * time.Second)
	defer cancel()
	locks, err := holdfast.Open(ctx, "sqlite:"+path, holdfast.WithTTL(2*time.Second))
	if err != nil {
		return nil, err
	}
	lease, err := locks.Mutex("x").Lock(ctx)
	if err == nil {
		err = lease.Unlock(ctx)
	}
	if err != nil {
		locks.Close()
		return nil, err
	}
	return locks, nil
}

// TestFullDisk fills a small file system under a store that is in use.
func TestFullDisk(t *testing.T) {
	cmd := childCommand(t, "full", t.TempDir())
	withMounts(cmd)
	if out, err := cmd.Output(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
}

// childFull runs where it may mount. When the disk is full, a holder's lease is lost in time, newcomers get an error
// that says so, and when there is room again all goes on.
func childFull(args []string) error {
	dir := args[0]
	if err := mountSmall(dir, 256<<10); err != nil {
		return fmt.Errorf("mount: %w", err)
	}
	locks, err := openAnd(filepath.Join(dir, "locks.db"))
	if err != nil {
		return err
	}
	defer locks.Close()
	ctx, cancel := deadline(30 * time.Second)
	defer cancel()
	lease, err := locks.Mutex("held").Lock(ctx)
	if err != nil {
		return err
	}
	ballast := filepath.Join(dir, "ballast")
	if err := fill(ballast); err != nil {
		return err
	}
	// The write-ahead log may have room for a while.
	for n := 0; err == nil; n++ {
		if n == 10_000 {
			return errors.New("the disk never got full")
		}
		var more *holdfast.Lease
		if more, err = locks.Mutex(fmt.Sprint("more ", n)).TryLock(ctx); err == nil {
			err = more.Unlock(ctx)
		}
	}
	if !strings.Contains(err.Error(), "disk is full") || store.Final(err) || errors.Is(err, holdfast.ErrLocked) {
		return fmt.Errorf("on a full disk: %w", err)
	}
	select {
	case <-lease.Context().Done():
	case <-ctx.Done():
		return errors.New("the holder was not told")
	}
	if err := os.Remove(ballast); err != nil {
		return err
	}
	again, err := locks.Mutex("held").Lock(ctx)
	if err != nil {
		return fmt.Errorf("when there was room again: %w", err)
	}
	if again.Token() <= lease.Token() {
		return fmt.Errorf("token %v after %v", again.Token(), lease.Token())
	}
	return again.Unlock(ctx)
}

// fill writes until nothing fits any more.
func fill(path string) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer f.Close()
	for block := make([]byte, 4096); err == nil; {
		_, err = f.Write(block)
	}
	if !isFull(err) {
		return err
	}
	return nil
}

func deadline(d time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), d)
}

// asNobody makes a command run without root's rights. For other users it does nothing.
func asNobody(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	if os.Geteuid() != 0 {
		return
	}
	const nobody = 65534
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	// This binary may be in a folder that only root can enter.
	self := filepath.Join(t.TempDir(), "child")
	check(t, copyFile(cmd.Path, self))
	check(t, os.Chmod(self, 0o755))
	cmd.Path = self
}

// withMounts gives a command a view of the file systems of its own, in which it may mount.
func withMounts(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS}
	if os.Geteuid() != 0 {
		cmd.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}}
	}
}

func mountSmall(dir string, size int) error {
	if err := syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""); err != nil {
		return err
	}
	return syscall.Mount("tmpfs", dir, "tmpfs", 0, fmt.Sprintf("size=%d", size))
}

func isFull(err error) bool { return errors.Is(err, syscall.ENOSPC) }
