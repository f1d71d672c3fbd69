package webui

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"path"
	"strings"

	"github.com/holdfast-go/holdfast/store"
)

// An Option changes what a [Handler] does.
type Option func(*settings) error

// settings are what the options set.
type settings struct {
	base       string // begins and ends with a slash
	prefix     string
	hosts      map[string]bool
	token      string
	storeURL   string
	breaks     bool
	health     func(context.Context) []Check
	log        *slog.Logger
	maxViewers int
}

// minToken is how long a token is at least.
const minToken = 16

// WithBasePath sets the path below which the page is mounted. The default is "/".
func WithBasePath(base string) Option {
	return func(s *settings) error {
		if !strings.HasPrefix(base, "/") || path.Clean(base) != strings.TrimSuffix(base, "/") && base != "/" {
			return fmt.Errorf(
				"webui: %q is not a base path, which begins with a slash and has no empty or dotted parts", base)
		}
		s.base = strings.TrimSuffix(base, "/") + "/"
		return nil
	}
}

// WithPrefix shows only the names that begin with prefix.
func WithPrefix(prefix string) Option {
	return func(s *settings) error { s.prefix = prefix; return nil }
}

// WithHosts allows requests that name these hosts, without a port. IP addresses and localhost are always allowed.
func WithHosts(names ...string) Option {
	return func(s *settings) error {
		for _, name := range names {
			if _, err := netip.ParseAddr(name); err != nil && (name == "" || strings.ContainsAny(name, ":/@ ")) {
				return fmt.Errorf("webui: %q is not a host name", name)
			}
			s.hosts[strings.ToLower(strings.TrimSuffix(name, "."))] = true
		}
		return nil
	}
}

// WithToken requires this secret, of at least 16 bytes, for everything but the empty page. [Handler.Fragment] is the
// end of a URL by which the page receives it.
func WithToken(token string) Option {
	return func(s *settings) error {
		if len(token) < minToken {
			return fmt.Errorf("webui: a token has at least %d bytes", minToken)
		}
		s.token = token
		return nil
	}
}

// WithStoreURL sets the URL of the store in the commands that the page offers to copy. Passwords and other parts that
// may be secret are left out of them. Without it, the commands leave the store to the environment.
func WithStoreURL(url string) Option {
	return func(s *settings) error {
		at, err := store.ParseLocation(url)
		if err != nil {
			return fmt.Errorf("webui: %w", err)
		}
		s.storeURL = withoutSecrets(at)
		return nil
	}
}

// WithBreak lets viewers break claims.
func WithBreak() Option {
	return func(s *settings) error { s.breaks = true; return nil }
}

// A Check is one result of a health check of the store.
type Check struct {
	Name   string `json:"name"`
	Status Status `json:"status"`
	Detail string `json:"detail,omitempty"` // what was found, and why it matters
	Fix    string `json:"fix,omitempty"`    // what to do about it
}

// Status is the outcome of a [Check].
type Status string

// The outcomes of a check.
const (
	OK   Status = "OK"
	Warn Status = "WARN"
	Fail Status = "FAIL"
)

// WithHealth shows what check reports. It is called when a viewer opens that part of the page, at most every 30
// seconds.
func WithHealth(check func(context.Context) []Check) Option {
	return func(s *settings) error {
		if check == nil {
			return errors.New("webui: WithHealth was given no function")
		}
		s.health = check
		return nil
	}
}

// WithLogger sets where breaks are logged: which claim, and from which address. The default is [slog.Default].
func WithLogger(log *slog.Logger) Option {
	return func(s *settings) error {
		if log == nil {
			return errors.New("webui: WithLogger was given no logger")
		}
		s.log = log
		return nil
	}
}

// WithMaxViewers sets how many pages can be connected at the same time. The default is 256.
func WithMaxViewers(n int) Option {
	return func(s *settings) error {
		if n < 1 {
			return fmt.Errorf("webui: %d viewers are not possible; the least is 1", n)
		}
		s.maxViewers = n
		return nil
	}
}
