package servers

import (
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"testing"
)

// An owner is the user that runs a server and owns its files. nil stands for the user of this process.
type owner struct{ uid, gid int }

// unprivileged returns the user that runs a server which refuses to run as root: nobody, if this process is root's.
func unprivileged() (*owner, error) {
	if os.Geteuid() != 0 {
		return nil, nil
	}
	nobody, err := user.Lookup("nobody")
	if err != nil {
		return nil, err
	}
	uid, err := strconv.Atoi(nobody.Uid)
	if err != nil {
		return nil, err
	}
	gid, err := strconv.Atoi(nobody.Gid)
	return &owner{uid, gid}, err
}

// own gives a file or folder to the owner.
func (o *owner) own(path string) error {
	if o == nil {
		return nil
	}
	return os.Lchown(path, o.uid, o.gid)
}

// write writes a file that belongs to the owner alone.
func (o *owner) write(path string, content []byte) error {
	if err := os.WriteFile(path, content, 0o600); err != nil {
		return err
	}
	return o.own(path)
}

// copyCertificates copies the certificates to where the server can read them.
func (s *Server) copyCertificates(c *Certificates) error {
	for _, file := range []string{c.CAFile, c.CertFile, c.KeyFile} {
		content, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		if err := s.owner.write(s.ownFile(file), content); err != nil {
			return err
		}
	}
	return nil
}

// ownFile returns the path of the copy of a file in the server's folder.
func (s *Server) ownFile(path string) string { return filepath.Join(s.dir, filepath.Base(path)) }

// sharedTempDir creates a folder that other users can read too: a server may run as another user.
func sharedTempDir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "holdfast-") //nolint:usetesting // other users cannot read t.TempDir
	must(t, err)
	atEnd(t, func() error { return os.RemoveAll(dir) })
	must(t, os.Chmod(dir, 0o755))
	return dir
}
