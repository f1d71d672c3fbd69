package redisstore_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/holdfast-go/holdfast/internal/servers"
	"github.com/holdfast-go/holdfast/internal/testkit"
	"github.com/holdfast-go/holdfast/redisstore"
	"github.com/holdfast-go/holdfast/store"
)

// The password of an ACL user changes while two stores are in use. Connections that were made before stay. A new
// connection logs in with the password of the moment: until the server knows it, calls fail with a fault that is not
// final, and after that the claims are still held. No error and no log shows a password.
func TestCredentialsChange(t *testing.T) {
	t.Parallel()
	server := servers.Redis(t)
	do := func(args ...string) {
		_, err := server.Do(args...)
		testkit.Must(t, err)
	}
	do("ACL", "SETUSER", "app", "on", ">first", "~*", "&*", "+@all")
	file := filepath.Join(t.TempDir(), "password")
	write := func(password string) { testkit.Must(t, os.WriteFile(file, []byte(password+"\n"), 0o600)) }
	write("first")
	var log lockedBuffer
	open := func(url string, options ...redisstore.Option) *redisstore.Store {
		logger := redisstore.WithLogger(slog.New(slog.NewTextHandler(&log, nil)))
		s, err := redisstore.Open(t.Context(), url, append(options, logger)...)
		testkit.Must(t, err)
		t.Cleanup(func() { s.Close() })
		return s
	}
	stores := map[string]*redisstore.Store{
		"file": open("redis://app@" + server.Addr() + "?password-file=" + file),
		"function": open("redis://nobody:wrong@"+server.Addr()+"?mode=plain&prefix=lock:",
			redisstore.WithCredentials(func(context.Context) (user, password string, err error) {
				text, err := os.ReadFile(file)
				return "app", strings.TrimSpace(string(text)), err
			})),
	}
	held := map[string]store.Claim{}
	for name, s := range stores {
		held[name] = testkit.Held(t, s, testkit.Claim(name, time.Minute))
	}
	awaitFault := func(name, text string) {
		t.Helper()
		testkit.Await(t, name+" fails with "+text, func() bool {
			_, err := stores[name].Keep(t.Context(), []store.Claim{held[name]})
			if err == nil {
				return false
			}
			testkit.CheckFault(t, err, false, server.Addr())
			return strings.Contains(err.Error(), text)
		})
	}

	write(testkit.Secret)
	for name, s := range stores {
		testkit.Keep(t, s, held[name], store.Held)
	}
	do("CLIENT", "KILL", "USER", "app")
	for name := range stores {
		awaitFault(name, "WRONGPASS")
	}
	do("ACL", "SETUSER", "app", "<first", ">"+testkit.Secret)
	for name, s := range stores {
		testkit.Await(t, name+" logs in", func() bool {
			_, err := s.Keep(t.Context(), []store.Claim{held[name]})
			return err == nil
		})
		testkit.Keep(t, s, held[name], store.Held)
	}

	testkit.Must(t, os.Remove(file))
	do("CLIENT", "KILL", "USER", "app")
	awaitFault("file", "the password file cannot be read")
	if strings.Contains(log.String(), testkit.Secret) || strings.Contains(log.String(), file) {
		t.Errorf("the log shows a password or its file: %s", log.String())
	}
}

// An error of WithCredentials ends Open. It is reported without the password that came with it.
func TestCredentialsFail(t *testing.T) {
	t.Parallel()
	server := servers.Redis(t)
	cause := errors.New("the vault is sealed")
	for name, failure := range map[string]error{
		"no password":   cause,
		"in the error":  errors.New("no such lease: " + testkit.Secret),
		"of no account": nil,
	} {
		_, err := redisstore.Open(t.Context(), "redis://"+server.Addr(),
			redisstore.WithCredentials(func(context.Context) (user, password string, err error) {
				return "app", testkit.Secret, failure
			}))
		testkit.CheckFault(t, err, false, server.Addr())
		if failure != nil && !strings.Contains(err.Error(), "no credentials: ") {
			t.Errorf("%s: %v", name, err)
		}
	}
	client, err := rueidis.NewClient(
		rueidis.ClientOption{InitAddress: []string{server.Addr()}, ForceSingleClient: true},
	)
	testkit.Must(t, err)
	defer client.Close()
	_, err = redisstore.New(t.Context(), client, redisstore.WithCredentials(
		func(context.Context) (user, password string, err error) { return "", "", nil }))
	if err == nil || !strings.Contains(err.Error(), "a client has credentials of its own") {
		t.Errorf("New with credentials: %v", err)
	}
}

// A lockedBuffer is a buffer for a log.
type lockedBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}
