// Package tlsurl reads the TLS parameters of a store's URL, in the same way for every store that has them.
package tlsurl

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/holdfast-go/holdfast/store"
)

// Parameters are the names of the parameters that Config reads.
var Parameters = []string{"ca", "cert", "key", "server-name", "insecure-skip-verify"}

// Parse checks that a URL has no parameters but these and, if its scheme is the secure one, Parameters. It returns the
// configuration then, and nil for another scheme.
func Parse(at store.Location, secure string, allowed ...string) (*tls.Config, error) {
	if at.Scheme != secure {
		return nil, at.Allow(allowed...)
	}
	if err := at.Allow(append(allowed, Parameters...)...); err != nil {
		return nil, err
	}
	return Config(at)
}

// Config returns the configuration of a URL's parameters. ServerName is empty if the URL does not set it. Errors do not
// contain file names: by mistake the name may be the key itself.
func Config(at store.Location) (*tls.Config, error) {
	q := at.Query
	config := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: q.Get("server-name")}
	switch q.Get("insecure-skip-verify") {
	case "true":
		config.InsecureSkipVerify = true //nolint:gosec // the URL requests it by this name
	case "", "false":
	default:
		return nil, errors.New("insecure-skip-verify is true or false")
	}
	if q.Has("ca") {
		pem, err := os.ReadFile(q.Get("ca"))
		if err != nil {
			return nil, fmt.Errorf("ca: the file cannot be read: %w", reason(err))
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(pem) {
			return nil, errors.New("ca: the file has no certificate in PEM")
		}
	}
	if q.Has("cert") != q.Has("key") {
		return nil, errors.New("cert and key go together")
	}
	if q.Has("cert") {
		pair, err := tls.LoadX509KeyPair(q.Get("cert"), q.Get("key"))
		if err != nil {
			return nil, fmt.Errorf("cert and key: the files cannot be used: %w", reason(err))
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return config, nil
}

// reason returns why a file cannot be read, without its name.
func reason(err error) error {
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		return e.Err
	}
	return err
}
