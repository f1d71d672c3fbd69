package sessionserver_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/internal/sessionserver"
	"github.com/holdfast-go/holdfast/store"
)

// A fakeStore was opened with these settings.
type fakeStore struct {
	store.Store
	set string
}

var (
	errParse = errors.New("the URL is not one of this store")
	errStart = errors.New("the server is not there")
)

// A store is registered under two schemes. Each opens it with what was read in the URL, and a failure returns its error
// and no store.
func TestRegister(t *testing.T) {
	t.Parallel()
	parse := func(at store.Location) (string, error) {
		if at.Path == "/refused" {
			return "", errParse
		}
		return at.Scheme + " " + at.Path, nil
	}
	start := func(_ context.Context, set string) (*fakeStore, error) {
		if strings.HasSuffix(set, "/away") {
			return nil, errStart
		}
		return &fakeStore{set: set}, nil
	}
	sessionserver.Register(parse, start, "fake", "fakes")
	for _, scheme := range []string{"fake", "fakes"} {
		for path, want := range map[string]error{"/there": nil, "/refused": errParse, "/away": errStart} {
			s, err := store.Open(t.Context(), store.Location{Scheme: scheme, Path: path})
			if !errors.Is(err, want) || (s != nil) != (want == nil) {
				t.Errorf("%s:%s opens %v, %v; want the error %v", scheme, path, s, err, want)
			}
			if opened, ok := s.(*fakeStore); ok && opened.set != scheme+" "+path {
				t.Errorf("%s:%s opens the store of %q", scheme, path, opened.set)
			}
		}
	}
}

// An empty prefix stands for none. Any other has to be a name.
func TestCheckPrefix(t *testing.T) {
	t.Parallel()
	for prefix, want := range map[string]error{"": nil, "tenant": nil, "a\x00b": store.ErrBadName} {
		if err := sessionserver.CheckPrefix(prefix); !errors.Is(err, want) {
			t.Errorf("the prefix %q gives %v, want %v", prefix, err, want)
		}
	}
}
