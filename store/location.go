package store

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
)

// A Location is the parsed URL of a store. Unlike a plain URL it may have several hosts, as in
// redlock://h1:6379,h2:6379,h3:6379.
type Location struct {
	Scheme string
	User   *url.Userinfo
	Hosts  []string   // host or host:port, in the order written
	Path   string     // the path of scheme://host/PATH, with its slash, or of scheme:PATH
	Query  url.Values // without prefix and ttl

	Prefix string        // ?prefix=, which keeps tenants of one server apart
	TTL    time.Duration // ?ttl=, 0 if absent
}

// escapes ends errors about a URL that was parsed otherwise than its author meant.
const escapes = "in a user, a password or a parameter, write / as %2F, ? as %3F, # as %23, & as %26, @ as %40 " +
	"and % as %25"

// ParseLocation parses the URL of a store. Its errors say which part is malformed, and never repeat any of it: a
// password may be anywhere in such a URL. An @ in the path is refused unless it is written as %40, since it is most
// often the one before the host of a URL with a slash too few or too many.
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
	// net/url refuses several hosts with ports, so the authority is parsed here.
	var authority string
	if after, ok := strings.CutPrefix(rest, "//"); ok {
		end := strings.IndexByte(after, '/')
		if end < 0 {
			end = len(after)
		}
		authority, rest = after[:end], after[end:]
	}
	if strings.Contains(rest, "@") {
		return Location{}, errors.New("the URL's path has an @: user and password are written " +
			"scheme://user:password@host, with / as %2F in them; an @ that belongs to a path is written %40")
	}
	if l.Path, err = url.PathUnescape(rest); err != nil {
		return Location{}, errors.New("the URL's path is malformed (% is written as %25)")
	}
	if l.Query, err = url.ParseQuery(query); err != nil {
		return Location{}, errors.New("the URL's parameters are malformed; " + escapes)
	}
	if err := l.setAuthority(authority); err != nil {
		return Location{}, err
	}
	if err := l.takeCommon(); err != nil {
		return Location{}, err
	}
	return l, nil
}

// isScheme reports whether s is a scheme by RFC 3986, in lower case.
func isScheme(s string) bool {
	for i, c := range s {
		letter := c >= 'a' && c <= 'z'
		if !letter && (i == 0 || !strings.ContainsRune("0123456789+-.", c)) {
			return false
		}
	}
	return s != ""
}

// setAuthority parses user, password and hosts.
func (l *Location) setAuthority(authority string) error {
	hosts := authority
	if at := strings.LastIndexByte(authority, '@'); at >= 0 {
		u, err := url.Parse("x://" + authority[:at] + "@host")
		if err != nil {
			return errors.New("the URL's user or password is malformed; " + escapes)
		}
		l.User, hosts = u.User, authority[at+1:]
	}
	if hosts == "" {
		return nil
	}
	l.Hosts = strings.Split(hosts, ",")
	for _, h := range l.Hosts {
		if !isHost(h) {
			return errors.New("a host or port in the URL is malformed; hosts are written h1:port,h2:port; " + escapes)
		}
	}
	return nil
}

// isHost reports whether s is a host with or without a port: a name or an address. IPv6 addresses are in brackets.
func isHost(s string) bool {
	u, err := url.Parse("x://" + s)
	if err != nil || u.Host != s || u.Hostname() == "" {
		return false
	}
	if port := u.Port(); port != "" {
		if _, err := strconv.ParseUint(port, 10, 16); err != nil {
			return false
		}
	}
	if s[0] == '[' {
		_, err := netip.ParseAddr(u.Hostname())
		return err == nil
	}
	return !strings.ContainsFunc(u.Hostname(), func(c rune) bool {
		return !unicode.IsLetter(c) && !unicode.IsDigit(c) && !strings.ContainsRune("-._", c)
	})
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

// parameters has the names of all stores' parameters, and whether String shows their values. The names and values of
// other parameters are masked.
var parameters = map[string]bool{
	"allow": true, "application_name": true, "ca": true, "cert": true, "connect_timeout": true, "datacenter": true,
	"db": true, "drift": true, "eviction": true, "host": true, "insecure-skip-verify": true, "key": true,
	"layout": true, "max-ttl": true, "mode": true, "namespace": true, "node": true, "node-timeout": true,
	"passfile":      true,
	"password-file": true, "retry": true, "server-name": true, "shared": true, "socket": true, "sslcert": true,
	"sslkey": true, "sslmode": true, "sslrootcert": true, "sslsni": true, "startup-delay": true,
	"target_session_attrs": true, "tick": true, "tls": true, "token-file": true, "tokens": true,
	"wait-replicas": true, "wait-timeout": true,
	"listen": false, "sentinel-user": false, "sentinel-password": false,
}

// Allow returns an error if the URL has a parameter other than these, prefix and ttl, or has one twice. A misspelt
// parameter must not silently mean the default. The error contains the parameter only if another store has one of that
// name: otherwise it may be a piece of a password.
func (l Location) Allow(names ...string) error {
	for name, values := range l.Query {
		if !slices.Contains(names, name) {
			unknown := "unknown parameter"
			if _, known := parameters[name]; known {
				unknown += fmt.Sprintf(" %q", name)
			}
			known := slices.Sorted(slices.Values(append([]string{"prefix", "ttl"}, names...)))
			return fmt.Errorf("%s in the URL of a %s store, which has %s; %s",
				unknown, l.Scheme, strings.Join(known, ", "), escapes)
		}
		if len(values) > 1 {
			return fmt.Errorf("parameter %q appears %d times", name, len(values))
		}
	}
	return nil
}

// Database returns the path as the name of one database. It returns an error if the path cannot be one, most often
// because the URL has a slash too few or too many, and if user, password, path or parameters have a NUL, which no
// database accepts.
func (l Location) Database() (string, error) {
	name, rooted := strings.CutPrefix(l.Path, "/")
	if l.Path != "" && !rooted || strings.Contains(name, "/") {
		return "", fmt.Errorf("the URL of a %s store is %s://user:password@host:port/database, with one database; %s",
			l.Scheme, l.Scheme, escapes)
	}
	password, _ := l.User.Password()
	parts := []string{l.Path, l.User.Username(), password}
	for _, values := range l.Query {
		parts = append(parts, values...)
	}
	if slices.ContainsFunc(parts, func(part string) bool { return strings.Contains(part, "\x00") }) {
		return "", fmt.Errorf("the URL of a %s store contains a NUL (%%00)", l.Scheme)
	}
	return name, nil
}

// LoneUser returns the user of a URL that has no password, or "". It may be a password in the wrong position.
func (l Location) LoneUser() string {
	if password, _ := l.User.Password(); password != "" {
		return ""
	}
	return l.User.Username()
}

// mask replaces what may be a secret.
const mask = "xxxxx"

// String returns the URL for errors and logs, with xxxxx instead of passwords, of a user without a password (which is
// most often a password in the wrong position), and of parameters that are not known to be harmless. It shows hosts,
// path, prefix and ttl. A URL that its store has [Rejected] must not be printed at all: a part that is shown may be a
// misplaced password.
func (l Location) String() string {
	var b strings.Builder
	b.WriteString(l.Scheme + ":")
	if len(l.Hosts) > 0 || l.User != nil || strings.HasPrefix(l.Path, "//") {
		b.WriteString("//" + l.maskedUser() + strings.Join(l.Hosts, ","))
	}
	path := (&url.URL{Path: l.Path}).EscapedPath()
	b.WriteString(strings.ReplaceAll(path, "@", "%40")) // as ParseLocation wants it
	if query := l.maskedQuery(); len(query) > 0 {
		b.WriteString("?" + query.Encode())
	}
	return b.String()
}

// maskedUser returns the user and the @ after it, or "".
func (l Location) maskedUser() string {
	if l.User == nil {
		return ""
	}
	if password, _ := l.User.Password(); password != "" {
		return url.User(l.User.Username()).String() + ":" + mask + "@"
	}
	if l.User.Username() != "" {
		return mask + "@"
	}
	return "@"
}

// maskedQuery returns the parameters, with prefix and ttl.
func (l Location) maskedQuery() url.Values {
	query := url.Values{}
	for name, values := range l.Query {
		shown, known := parameters[name]
		if !known {
			name = mask
		}
		if !shown {
			values = []string{mask}
		}
		query[name] = values
	}
	if l.Prefix != "" {
		query.Set("prefix", l.Prefix)
	}
	if l.TTL != 0 {
		query.Set("ttl", l.TTL.String())
	}
	return query
}

// Masked reports whether the location was parsed from what String returned for one with a secret.
func (l Location) Masked() bool {
	if l.User != nil {
		if password, _ := l.User.Password(); password == mask || password == "" && l.User.Username() == mask {
			return true
		}
	}
	for _, values := range l.Query {
		if slices.Contains(values, mask) {
			return true
		}
	}
	return false
}
