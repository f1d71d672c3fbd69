// Package tlsurl reads what a store's URL says about TLS, alike for every store that has it.
package tlsurl

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"

	"github.com/holdfast-go/holdfast/store"
)

// Parameters are the names of the parameters that Config reads.
var Parameters = []string{"ca", "cert", "key", "server-name", "insecure-skip-verify"}

// Config makes a configuration of a URL's parameters. ServerName is empty if the URL does not set it.
func Config(at store.Location) (*tls.Config, error) {
	q := at.Query
	config := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: q.Get("server-name")}
	switch q.Get("insecure-skip-verify") {
	case "true":
		config.InsecureSkipVerify = true //nolint:gosec // it was asked for, by this name
	case "", "false":
	default:
		return nil, errors.New("insecure-skip-verify is true or false")
	}
	if q.Has("ca") {
		pem, err := os.ReadFile(q.Get("ca"))
		if err != nil {
			return nil, fmt.Errorf("ca: %w", err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("ca: %s has no certificate in PEM", q.Get("ca"))
		}
	}
	if q.Has("cert") != q.Has("key") {
		return nil, errors.New("cert and key go together")
	}
	if q.Has("cert") {
		pair, err := tls.LoadX509KeyPair(q.Get("cert"), q.Get("key"))
		if err != nil {
			return nil, fmt.Errorf("cert and key: %w", err)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return config, nil
}
