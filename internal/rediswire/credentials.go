package rediswire

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/redis/rueidis"

	"github.com/holdfast-go/holdfast/store"
)

// Credentials return the user and the password for a new connection. An empty user stands for the one of the URL.
type Credentials func(ctx context.Context) (user, password string, err error)

// PasswordFile returns credentials that read the password from a file, again for each connection. A line end after the
// password is not part of it.
func PasswordFile(path string) Credentials {
	return func(context.Context) (user, password string, err error) {
		text, err := os.ReadFile(path)
		if err != nil {
			if cause, ok := errors.AsType[*fs.PathError](err); ok {
				err = cause.Err // without the path
			}
			return "", "", fmt.Errorf("the password file cannot be read: %w", err)
		}
		return "", strings.TrimRight(string(text), "\r\n"), nil
	}
}

// ParseCredentials returns the credentials that the parameter password-file of a URL describes, or nil if it is not
// there.
func ParseCredentials(at store.Location) (Credentials, error) {
	path := at.Query.Get("password-file")
	_, given := at.User.Password()
	switch {
	case !at.Query.Has("password-file"):
		return nil, nil //nolint:nilnil // there need not be any
	case path == "":
		return nil, errors.New("password-file is the path of a file with the password")
	case given:
		return nil, errors.New("the URL has a password and a password-file, and only one of them can count")
	}
	return PasswordFile(path), nil
}

// A CredentialsError reports that there were no credentials for a new connection.
type CredentialsError struct{ Err error }

// Error returns the text of the cause.
func (e *CredentialsError) Error() string { return "no credentials: " + e.Err.Error() }

// Unwrap returns the cause.
func (e *CredentialsError) Unwrap() error { return e.Err }

// Secrets keep passwords out of errors. A *frame.Frame does.
type Secrets interface {
	Hide(secret string)
	HideLatest(password string)
}

// LogIn hides the password of options. If get is not nil, it sets options so that each new connection logs in with what
// get returns, within DialTimeout and life. Passwords are hidden before they are used.
func LogIn(life context.Context, options *rueidis.ClientOption, get Credentials, secrets Secrets) {
	user := options.Username
	secrets.Hide(options.Password)
	if get == nil {
		if options.Password == "" {
			secrets.Hide(user) // a user without a password is most often a password in the wrong place
		}
		return
	}
	options.AuthCredentialsFn = func(rueidis.AuthCredentialsContext) (rueidis.AuthCredentials, error) {
		ctx, cancel := context.WithTimeout(life, DialTimeout)
		defer cancel()
		own, password, err := get(ctx)
		secrets.HideLatest(password)
		if err != nil {
			return rueidis.AuthCredentials{}, &CredentialsError{err}
		}
		return rueidis.AuthCredentials{Username: cmp.Or(own, user), Password: password}, nil
	}
}

// LoginRefused reports whether err is a server's refusal of a user and a password. With credentials that change it is
// temporary: the connection may have used the last password before the next.
func LoginRefused(err error) bool {
	e, ok := IsRefusal(err)
	return ok && (strings.HasPrefix(e.Error(), "WRONGPASS") || strings.HasPrefix(e.Error(), "NOAUTH"))
}
