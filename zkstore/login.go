package zkstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/go-zookeeper/zk"
)

// Credentials returns a user and a password. An empty user leaves the one of the URL.
type Credentials func(ctx context.Context) (user, password string, err error)

// WithCredentials has each session log in with what get returns, for passwords that change. get is called when a
// session begins, and when a server has refused a request for lack of a permission: if it returns something new then,
// the session logs in with that as well, and sends the request again. To ZooKeeper a user with another password is
// another user: see the package's documentation.
func WithCredentials(get Credentials) Option { return func(s *settings) { s.credentials = get } }

// WithLogin is WithCredentials for a password that does not change.
func WithLogin(user, password string) Option {
	return func(s *settings) { s.user, s.password = user, password }
}

// errNoCredentials is the error of a login without a password.
var errNoCredentials = errors.New("no user and password to log in with")

// hasUser reports whether clients log in.
func (s *settings) hasUser() bool { return s.user != "" || s.credentials != nil }

// readLogin returns what to log in with now, as ZooKeeper's digest scheme has it.
func (s *settings) readLogin(ctx context.Context) (string, error) {
	user, password := s.user, s.password
	if s.credentials != nil {
		u, p, err := s.credentials(ctx)
		s.hide(p)
		if err != nil {
			return "", fmt.Errorf("%w: %w", errNoCredentials, err)
		}
		user, password = cmp.Or(u, s.user), p
	}
	if user == "" || password == "" || strings.Contains(user, ":") {
		return "", fmt.Errorf("%w: one of them is empty, or the user has a colon", errNoCredentials)
	}
	return user + ":" + password, nil
}

// logins are those of one session. A connection has the permissions of all users that it has logged in as, and the
// library repeats all logins over a new connection.
type logins struct {
	count atomic.Int64

	mu   sync.Mutex
	last string
}

// logIn logs in, unless that was done since there were so many logins, or with the same user and password. It reports
// whether there has been a login since.
func (c *client) logIn(ctx context.Context, since int64) (bool, error) {
	if !c.settings.hasUser() {
		return false, nil
	}
	l := &c.logins
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.count.Load() > since {
		return true, nil
	}
	login, err := c.settings.readLogin(ctx)
	if err != nil || login == l.last {
		return false, err
	}
	for range callTries {
		_, err = callOnce(ctx, c, func(conn *zk.Conn) (struct{}, error) {
			return struct{}{}, conn.AddAuth("digest", []byte(login))
		})
		if !isCut(err) {
			break
		}
	}
	if err != nil {
		return false, err
	}
	l.last = login
	l.count.Add(1)
	return true, nil
}

// refused reports whether a request that failed so is to be sent again, since its session has logged in once more. A
// request that lacks a permission was not carried out, nor was any part of it.
func (c *client) refused(ctx context.Context, err error, since int64) bool {
	if !errors.Is(err, zk.ErrNoAuth) {
		return false
	}
	again, _ := c.logIn(ctx, since) // otherwise the refusal is what counts
	return again
}
