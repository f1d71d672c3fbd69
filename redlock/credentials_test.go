package redlock_test

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/holdfast-go/holdfast/internal/testkit"
	"github.com/holdfast-go/holdfast/redlock"
	"github.com/holdfast-go/holdfast/store"
)

// The password of an ACL user changes at all nodes while two stores are in use. A new connection logs in with the
// password of the moment: until the nodes know it, renewals fail with a fault that is not final, and after that the
// claims are still held. No error, no log and no health shows a password.
func TestCredentialsChange(t *testing.T) {
	t.Parallel()
	f := newFreshFleet(t, 3)
	do := func(args ...string) {
		t.Helper()
		for _, n := range f.nodes {
			_, err := n.Do(args...)
			testkit.Must(t, err)
		}
	}
	do("ACL", "SETUSER", "app", "on", ">first", "~*", "&*", "+@all")
	file := filepath.Join(t.TempDir(), "password")
	write := func(password string) { testkit.Must(t, os.WriteFile(file, []byte(password+"\n"), 0o600)) }
	write("first")
	hosts := strings.Join(f.addresses(), ",") + "?" + calm
	byFile := "redlock://app@" + hosts + "&password-file=" + file
	health, err := redlock.Init(t.Context(), byFile)
	if err != nil || !allVote(health) {
		t.Fatalf("Init: %+v, %v", health, err)
	}
	var log lockedBuffer
	logger := redlock.WithLogger(slog.New(slog.NewTextHandler(&log, nil)))
	credentials := redlock.WithCredentials(func(context.Context) (user, password string, err error) {
		text, err := os.ReadFile(file)
		return "app", strings.TrimSpace(string(text)), err
	})
	stores := map[string]*redlock.Store{}
	held := map[string]store.Claim{}
	for name, open := range map[string]func() (*redlock.Store, error){
		"file": func() (*redlock.Store, error) { return redlock.Open(t.Context(), byFile, logger) },
		"function": func() (*redlock.Store, error) {
			return redlock.Open(t.Context(), "redlock://"+hosts, logger, credentials)
		},
	} {
		s, err := open()
		testkit.Must(t, err)
		t.Cleanup(func() { s.Close() })
		stores[name], held[name] = s, testkit.Held(t, s, testkit.Claim(name, time.Minute))
	}

	write(testkit.Secret)
	do("CLIENT", "KILL", "USER", "app")
	for name, s := range stores {
		testkit.Await(t, name+" is refused by a majority", func() bool {
			_, err := s.Keep(t.Context(), []store.Claim{held[name]})
			if err == nil {
				return false
			}
			testkit.CheckFault(t, err, false, f.nodes[0].Addr())
			return strings.Contains(err.Error(), "WRONGPASS")
		})
		for _, h := range s.Health(t.Context()) {
			if h.State != redlock.Failing || h.Err == nil || strings.Contains(h.Err.Error(), testkit.Secret) {
				t.Errorf("%s: %+v", name, h)
			}
		}
	}
	do("ACL", "SETUSER", "app", "<first", ">"+testkit.Secret)
	for name, s := range stores {
		testkit.Await(t, name+" logs in at all nodes", func() bool { return allVote(s.Health(t.Context())) })
		testkit.Await(t, name+" is renewed", func() bool {
			_, err := s.Keep(t.Context(), []store.Claim{held[name]})
			return err == nil
		})
		testkit.Keep(t, s, held[name], store.Held)
	}
	health, err = redlock.Status(t.Context(), "redlock://"+hosts, credentials)
	if err != nil || !allVote(health) {
		t.Errorf("Status: %+v, %v", health, err)
	}

	testkit.Must(t, os.Remove(file))
	health, err = redlock.Status(t.Context(), byFile)
	if err != nil || health[0].Err == nil ||
		!strings.Contains(health[0].Err.Error(), "the password file cannot be read") {
		t.Errorf("Status without the file: %+v, %v", health, err)
	}
	if strings.Contains(log.String(), testkit.Secret) || strings.Contains(log.String(), file) {
		t.Errorf("the log shows a password or its file: %s", log.String())
	}
}

// New refuses credentials: its clients have their own.
func TestNewRefusesCredentials(t *testing.T) {
	_, err := redlock.New(t.Context(), make([]rueidis.Client, 3), redlock.WithCredentials(
		func(context.Context) (user, password string, err error) { return "", "", nil }))
	if err == nil || !strings.Contains(err.Error(), "a client has credentials of its own") {
		t.Error(err)
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
