package sqlite

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/holdfast-go/holdfast/store"
)

var _ store.Examiner = (*engine)(nil)

// networked are file systems of other machines, on which the locks that SQLite needs do not hold, or not always.
var networked = []string{"nfs", "cifs", "smb", "smb2", "9p", "afs", "ceph", "lustre", "gfs2", "ocfs2", "v9fs"}

// leastFree is how much of a disk should be free.
const leastFree = 64 << 20

// pragmas are what SQLite reports of the file.
type pragmas struct{ version, journal string }

// Examine implements store.Examiner.
func (e *engine) Examine(ctx context.Context) []store.Finding {
	all := []store.Finding{e.fileSystem(), e.permissions(), e.freeSpace()}
	p, err := read(ctx, e, (*transaction).pragmas)
	if err != nil {
		return append(all, store.Finding{
			Check: "file", Level: store.Fail, Found: "it cannot be read: " + e.fault(err).Error(),
			Why: "no lock can be acquired", Fix: "restore the file, or delete it while no program uses it",
		})
	}
	journal := store.Finding{Check: "persistence", Found: "the journal is in mode " + p.journal +
		": locks survive a crash of any process; a restart of the machine ends all leases"}
	if p.journal != "wal" {
		journal.Level = store.Fail
		journal.Why = "without the write-ahead log readers and writers block each other"
		journal.Fix = "move the file to a local disk; then sqlite3 FILE 'PRAGMA journal_mode = wal'"
	}
	return append(all, store.Finding{Check: "version", Found: "SQLite " + p.version}, journal, store.Finding{
		Check: "clock", Found: "the file is of this machine, and deadlines count from its start: no clock can be wrong",
	})
}

// pragmas reads what SQLite reports.
func (tx *transaction) pragmas() (p pragmas, err error) {
	if _, err = tx.one("SELECT sqlite_version()", nil, &p.version); err != nil {
		return p, err
	}
	_, err = tx.one("PRAGMA journal_mode", nil, &p.journal)
	return p, err
}

func (e *engine) fileSystem() store.Finding {
	kind, _ := statFS(filepath.Dir(e.path))
	f := store.Finding{Check: "file system", Found: "the file is on " + kind}
	switch {
	case kind == "":
		f.Found = "the kind of file system is not known here"
	case kind == "fuse":
		f.Level = store.Warn
		f.Why = "a FUSE file system may lead to another machine (sshfs, s3fs), where file locks do not hold"
		f.Fix = "mount | grep fuse shows what it is; move the file to a local disk if it is a network"
	case slices.Contains(networked, kind):
		f.Level = store.Fail
		f.Why = "other machines can write to the file, and file locks of a network are not reliable: two clients can " +
			"hold one lock"
		f.Fix = "move the file to a local disk; for locks between machines use a server, such as redis:// or " +
			"postgres://"
	}
	return f
}

func (e *engine) permissions() store.Finding {
	f := store.Finding{Check: "permissions"}
	info, err := os.Stat(e.path)
	if err != nil {
		f.Level, f.Found = store.Fail, "the file is gone: "+err.Error()
		f.Why, f.Fix = "it was deleted while it was in use: its locks are lost", "run doctor again"
		return f
	}
	f.Found = fmt.Sprintf("%s has mode %v", e.path, info.Mode().Perm())
	if e.shared {
		f.Found += ", and is shared with other users, who can take locks away (shared=yes)"
	} else {
		f.Found += ", and only this user can write to it"
	}
	return f
}

func (e *engine) freeSpace() store.Finding {
	_, free := statFS(filepath.Dir(e.path))
	f := store.Finding{Check: "disk", Found: fmt.Sprintf("%d MiB are free", free>>20)}
	switch {
	case free < 0:
		f.Found = "how much is free is not known here"
	case free < leastFree:
		f.Level = store.Warn
		f.Why = "when the disk is full no lock is acquired or renewed"
		f.Fix = "free some space on the disk of " + filepath.Dir(e.path)
	}
	return f
}
