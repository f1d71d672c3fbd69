package fence

import (
	"encoding/json"
	"errors"
	"fmt"
	"mime"
	"net/http"

	"github.com/holdfast-go/holdfast"
)

const (
	problemMedia = "application/problem+json"
	staleType    = "https://pkg.go.dev/github.com/holdfast-go/holdfast/fence#StaleError"
)

// problem is a response as in RFC 9457. Tokens are strings, as Pad writes them: many clients read JSON numbers as
// doubles.
type problem struct {
	Type   string `json:"type"`
	Title  string `json:"title"`
	Status int    `json:"status"`
	Detail string `json:"detail"`
	Token  string `json:"token,omitempty"`
	Seen   string `json:"seen,omitempty"`
}

// plainProblem returns a problem with a status and a sentence.
func plainProblem(status int, detail string) problem {
	return problem{Type: "about:blank", Title: http.StatusText(status), Status: status, Detail: detail}
}

// Refuse responds to a request whose write a fence did not accept. For a *StaleError, such as that of [Row.Do], the
// status is 409 with a problem (RFC 9457) that has both tokens, and that [RoundTripper] turns back into the error. For
// any other holdfast.ErrStale it is 409 too. For everything else it is 503, without the details of the failure.
func Refuse(w http.ResponseWriter, err error) {
	var stale *StaleError
	switch {
	case errors.As(err, &stale):
		problem{
			Type: staleType, Title: "Stale fencing token", Status: http.StatusConflict, Detail: stale.Error(),
			Token: Pad(stale.Token), Seen: Pad(stale.Seen),
		}.write(w)
	case errors.Is(err, holdfast.ErrStale):
		plainProblem(http.StatusConflict, "The data was changed meanwhile.").write(w)
	default:
		plainProblem(http.StatusServiceUnavailable, "The fence could not be checked.").write(w)
	}
}

// write writes the problem as the response.
func (p problem) write(w http.ResponseWriter) {
	body, err := json.Marshal(p)
	if err != nil { // impossible: it has strings and a number only
		panic(err)
	}
	w.Header().Set("Content-Type", problemMedia)
	w.WriteHeader(p.Status)
	w.Write(append(body, '\n')) //nolint:errcheck // the client is gone
}

// isProblem reports whether a response may be one that Refuse wrote.
func isProblem(resp *http.Response) bool {
	media, _, err := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	return err == nil && media == problemMedia && resp.StatusCode == http.StatusConflict
}

// staleFrom returns the *StaleError of a body that Refuse wrote, and an error for any other body.
func staleFrom(body []byte) (*StaleError, error) {
	var p problem
	if err := json.Unmarshal(body, &p); err != nil {
		return nil, err
	}
	token, tokenErr := unpad(p.Token)
	seen, seenErr := unpad(p.Seen)
	if err := errors.Join(tokenErr, seenErr); err != nil {
		return nil, err
	}
	if p.Type != staleType {
		return nil, fmt.Errorf("holdfast: a problem of type %q", p.Type)
	}
	return &StaleError{Token: token, Seen: seen}, nil
}
