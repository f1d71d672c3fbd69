package doctor

import (
	"errors"
	"strings"

	"github.com/holdfast-go/holdfast/store"
)

// fixes say what to do about an error of a store. The first whose scheme (a beginning, or "") and text fit counts.
var fixes = []struct{ scheme, text, fix string }{
	{"redis", "replica", "name the master in the URL, or use redis+sentinel:// or redis+cluster://, which find it"},
	{"valkey", "replica", "name the master in the URL, or use valkey+sentinel:// or valkey+cluster://, which find it"},
	{"redlock", "replica", "name independent masters, or allow it with allow=replicas"},
	{"red", "lacks a permission", aclFix},
	{"valkey", "lacks a permission", aclFix},
	{"postgres", "only", "name the primary in the URL, or all servers: postgres://h1,h2/DATABASE finds it"},
	{"mysql", "only", "SET GLOBAL read_only = OFF, or name the primary in the URL, or all servers: " +
		"mysql://h1,h2/DATABASE"},
	{"mariadb", "only", "SET GLOBAL read_only = OFF, or name the primary in the URL, or all servers: " +
		"mariadb://h1,h2/DATABASE"},
	{"postgres", "lacks", "holdfast schema postgres --user USER | psql DATABASE, as an administrator"},
	{"postgres", "migrate", "holdfast schema postgres | psql -1 -v ON_ERROR_STOP=1 DATABASE, as the tables' owner"},
	{"postgres", "create the schema", "holdfast schema postgres --user USER | psql DATABASE, as an administrator"},
	{"mysql", "schema", "holdfast schema mysql --user USER | mysql DATABASE, as an administrator"},
	{"mariadb", "schema", "holdfast schema mysql --user USER | mysql DATABASE, as an administrator"},
	{"etcd", "space", "etcdctl compact REVISION; etcdctl defrag; etcdctl alarm disarm"},
	{"sqlite", "folder is not there", "mkdir -p the folder of the file"},
	{"sqlite", "permission", fileFix},
	{"sqlite", "read-only", fileFix},
	{"sqlite", "cannot be opened", fileFix},
	{"sqlite", "local disk", "move the file to a local disk, and change the URL"},
	{"sqlite", "shared=yes", "move the file to a folder of this user, or append ?shared=yes if its users trust each " +
		"other"},
	{"", "password", "correct user and password in the URL (write / as %2F, @ as %40)"},
	{"", "authent", "correct user and password in the URL (write / as %2F, @ as %40)"},
	{"", "permission", "grant this user what the message names"},
	{"", "refused", "start the server, or correct host and port in the URL"},
	{"", "no response", "check network and load of the server"},
}

// fileFix lets a user write to a file of SQLite.
const fileFix = "let this user write to the file and its folder: chown USER FOLDER FILE; chmod u+rwx FOLDER"

// aclFix grants a user of Redis all that holdfast needs.
const aclFix = "ACL SETUSER USER with the keys, channels and commands of the section Redis in docs/operations.md"

// fixFor returns what to do about an error of a store with this scheme.
func fixFor(scheme string, err error) string {
	if errors.Is(err, store.ErrFormat) {
		return "use a version of holdfast that is at least as new as the one that wrote it"
	}
	said := strings.ToLower(err.Error())
	for _, f := range fixes {
		if strings.HasPrefix(scheme, f.scheme) && strings.Contains(said, f.text) {
			return f.fix
		}
	}
	return "docs/operations.md has a section for each store"
}
