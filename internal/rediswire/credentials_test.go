package rediswire

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/redis/rueidis"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/frame"
)

const rotations = 256 // more than are remembered

// Passwords that change are hidden from errors. The oldest ones are forgotten.
func TestOldPasswordsAreForgotten(t *testing.T) {
	f := frame.New(frame.Config{Name: "nowhere"})
	defer f.End()
	password := ""
	var options rueidis.ClientOption
	LogIn(f.Life(), &options, func(context.Context) (string, string, error) { return "", password, nil }, f)
	logIn := func(with string) {
		password = with
		if got, err := options.AuthCredentialsFn(rueidis.AuthCredentialsContext{}); err != nil || got.Password != with {
			t.Fatalf("it logs in with %q, %v, want %q", got.Password, err, with)
		}
	}
	for i := range 3 * rotations {
		logIn("always")
		logIn(fmt.Sprint("once ", i, "."))
	}
	for i := range 2 * rotations {
		if old := fmt.Sprint("once ", i, "."); f.MaskText(old) != old {
			t.Errorf("%q is still hidden", old)
		}
	}
	for _, recent := range []string{"always", fmt.Sprint("once ", 3*rotations-1, ".")} {
		if got := f.Mask(errors.New("it said " + recent)).Error(); got != "it said xxxxx" {
			t.Errorf("%s: %s", recent, got)
		}
	}
}

// A login uses the user of the URL unless the credentials have one. An error of the credentials is reported as such,
// and its text does not show the password that came with it.
func TestLogIn(t *testing.T) {
	f := frame.New(frame.Config{Name: "nowhere"})
	defer f.End()
	options := rueidis.ClientOption{Username: "of the URL"}
	var user string
	var failure error
	LogIn(f.Life(), &options, func(context.Context) (string, string, error) { return user, "s3cret", failure }, f)
	for _, user = range []string{"", "own"} {
		want := map[string]string{"": "of the URL", "own": "own"}[user]
		if got, err := options.AuthCredentialsFn(rueidis.AuthCredentialsContext{}); err != nil || got.Username != want {
			t.Errorf("with the user %q it logs in as %q, %v", user, got.Username, err)
		}
	}
	failure = errors.New("s3cret has expired")
	_, err := options.AuthCredentialsFn(rueidis.AuthCredentialsContext{})
	why, final := Explain(err)
	if got := f.Mask(why).Error(); final || got != "no credentials: xxxxx has expired" {
		t.Errorf("Explain: %s, final: %t", got, final)
	}
}

// A password file is read at each login. Its errors do not show its path, which may be a password in the wrong place.
func TestPasswordFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "password")
	at, err := store.ParseLocation("redis://app@h?password-file=" + file)
	if err != nil {
		t.Fatal(err)
	}
	get, err := ParseCredentials(at)
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"first\n", "second\r\n", " third "} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if user, password, err := get(t.Context()); user != "" || password != strings.TrimRight(text, "\r\n") ||
			err != nil {
			t.Errorf("%q: it reads %q, %q, %v", text, user, password, err)
		}
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	if _, _, err := get(t.Context()); err == nil || strings.Contains(err.Error(), file) ||
		!errors.Is(err, os.ErrNotExist) {
		t.Errorf("without the file: %v", err)
	}
	for _, wrong := range []string{"redis://app:s3cret@h?password-file=" + file, "redis://h?password-file="} {
		at, err := store.ParseLocation(wrong)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := ParseCredentials(at); err == nil || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%s: %v", at, err)
		}
	}
}
