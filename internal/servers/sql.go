package servers

import (
	"database/sql"
	"net/url"
	"testing"
)

// userinfo is the part of a URL that says who connects.
func userinfo(user, password string) *url.Userinfo {
	if password == "" {
		return url.User(user)
	}
	return url.UserPassword(user, password)
}

// closedWith closes db when the test ends.
func closedWith(t testing.TB, db *sql.DB) *sql.DB {
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Errorf("%v", err)
		}
	})
	return db
}
