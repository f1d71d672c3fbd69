package servers

import (
	"database/sql"
	"net/url"
	"testing"
	"time"
)

// readyPatience is how long a server that may not be ready gets for an answer, before it is asked again. Another server
// on its port may keep silent.
const readyPatience = 2 * time.Second

// userinfo is the part of a URL that names the user.
func userinfo(user, password string) *url.Userinfo {
	if password == "" {
		return url.User(user)
	}
	return url.UserPassword(user, password)
}

// closedWith closes db when the test ends. Its server may have ended before, which is an error to some drivers.
func closedWith(t testing.TB, db *sql.DB) *sql.DB {
	t.Cleanup(func() { _ = db.Close() })
	return db
}
