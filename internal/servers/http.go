package servers

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
)

// overSocket returns a transport for one request to a server that listens on a Unix socket.
func overSocket(path string) *http.Transport {
	return &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", path)
		},
	}
}

// httpURL returns the URL where the server serves HTTP on its port, or HTTPS with certificates.
func (s *Server) httpURL(c *Certificates) string {
	if c != nil {
		return "https://" + s.Addr()
	}
	return "http://" + s.Addr()
}

// fetch sends a request and returns the body of the response. A status other than 200 is an error.
func fetch(via *http.Transport, request *http.Request) ([]byte, error) {
	response, err := via.RoundTrip(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close() //nolint:errcheck // it was read
	body, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", response.Status, body)
	}
	return body, err
}
