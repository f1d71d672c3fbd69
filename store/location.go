package store

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"
)

// A Location is the URL of a store, taken apart. It differs from a plain URL in that it may name several hosts,
// as in redlock://h1:6379,h2:6379,h3:6379.
type Location struct {
	Scheme string
	User   *url.Userinfo
	Hosts  []string   // host or host:port, in the order written
	Path   string     // of scheme://host/PATH with its slash, or of scheme:PATH
	Query  url.Values // without prefix and ttl

	Prefix string        // ?prefix=, which keeps tenants of one server apart
	TTL    time.Duration // ?ttl=, 0 if absent
}

// ParseLocation takes a store's URL apart. Its errors never repeat the URL, which may hold a password.
func ParseLocation(raw string) (l Location, err error) {
	scheme, rest, ok := strings.Cut(raw, ":")
	if l.Scheme = strings.ToLower(scheme); !ok || !isScheme(l.Scheme) {
		return Location{}, errors.New("a store's URL begins with a scheme, as memory: or redis://127.0.0.1:6379 do")
	}
	rest, _, ok = strings.Cut(rest, "#")
	if ok {
		return Location{}, errors.New("a store's URL has no fragment; write # as %23")
	}
	rest, query, _ := strings.Cut(rest, "?")
	// net/url refuses several hosts with ports, hence all this.
	var authority string
	if after, ok := strings.CutPrefix(rest, "//"); ok {
		end := strings.IndexByte(after, '/')
		if end < 0 {
			end = len(after)
		}
		authority, rest = after[:end], after[end:]
	}
	if l.Path, err = url.PathUnescape(rest); err != nil {
		return Location{}, errors.New("the URL's path is malformed (% is written as %25)")
	}
	if l.Query, err = url.ParseQuery(query); err != nil {
		return Location{}, errors.New("the URL's parameters are malformed (special characters are written as %XX)")
	}
	if err := l.setAuthority(authority); err != nil {
		return Location{}, err
	}
	if err := l.takeCommon(); err != nil {
		return Location{}, err
	}
	return l, nil
}

// isScheme says whether s is what RFC 3986 calls a scheme, in lower case.
func isScheme(s string) bool {
	for i, c := range s {
		letter := c >= 'a' && c <= 'z'
		if !letter && (i == 0 || !strings.ContainsRune("0123456789+-.", c)) {
			return false
		}
	}
	return s != ""
}

// setAuthority reads user, password and hosts.
func (l *Location) setAuthority(authority string) error {
	hosts := authority
	if at := strings.LastIndexByte(authority, '@'); at >= 0 {
		u, err := url.Parse("x://" + authority[:at] + "@host")
		if err != nil {
			return errors.New("the URL's user or password is malformed (special characters are written as %XX)")
		}
		l.User, hosts = u.User, authority[at+1:]
	}
	if hosts == "" {
		return nil
	}
	l.Hosts = strings.Split(hosts, ",")
	for _, h := range l.Hosts {
		u, err := url.Parse("x://" + h)
		if err != nil || u.Host != h || u.Hostname() == "" || h[0] != '[' && strings.Count(h, ":") > 1 {
			return errors.New("a host in the URL is malformed; hosts are written h1:port,h2:port")
		}
	}
	return nil
}

// takeCommon moves the parameters that every store has out of the query.
func (l *Location) takeCommon() error {
	l.Prefix = l.Query.Get("prefix")
	if l.Prefix != "" {
		if err := CheckName(l.Prefix); err != nil {
			return fmt.Errorf("%w (the prefix)", err)
		}
	}
	if l.Query.Has("ttl") {
		ttl, err := time.ParseDuration(l.Query.Get("ttl"))
		if err != nil || ttl <= 0 {
			return errors.New("ttl is a positive duration, as in ttl=10s")
		}
		l.TTL = ttl
	}
	l.Query.Del("prefix")
	l.Query.Del("ttl")
	return nil
}

// Allow refuses a URL with parameters other than these, prefix and ttl, and with one of them given twice. A
// misspelt parameter must not be taken for a default.
func (l Location) Allow(parameters ...string) error {
	for name, values := range l.Query {
		if !slices.Contains(parameters, name) {
			return fmt.Errorf("unknown parameter %q in the URL of a %s store", name, l.Scheme)
		}
		if len(values) > 1 {
			return fmt.Errorf("parameter %q is given %d times", name, len(values))
		}
	}
	return nil
}

// String writes the URL with the password masked, for errors and logs.
func (l Location) String() string {
	var b strings.Builder
	b.WriteString(l.Scheme + ":")
	if len(l.Hosts) > 0 || l.User != nil || strings.HasPrefix(l.Path, "//") {
		b.WriteString("//")
		if l.User != nil {
			b.WriteString(url.User(l.User.Username()).String())
			if _, has := l.User.Password(); has {
				b.WriteString(":xxxxx")
			}
			b.WriteString("@")
		}
		b.WriteString(strings.Join(l.Hosts, ","))
	}
	b.WriteString((&url.URL{Path: l.Path}).EscapedPath())
	query := url.Values{}
	for name, values := range l.Query {
		if secret(name) {
			values = []string{"xxxxx"}
		}
		query[name] = values
	}
	if l.Prefix != "" {
		query.Set("prefix", l.Prefix)
	}
	if l.TTL != 0 {
		query.Set("ttl", l.TTL.String())
	}
	if len(query) > 0 {
		b.WriteString("?" + query.Encode())
	}
	return b.String()
}

// secret says whether a parameter of this name may hold a secret.
func secret(name string) bool {
	name = strings.ToLower(name)
	for _, word := range []string{"pass", "secret", "token", "auth", "credential"} {
		if strings.Contains(name, word) {
			return true
		}
	}
	return false
}
