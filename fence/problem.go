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

// problem is an answer as in RFC 9457. Tokens are strings, as Pad writes them: JSON numbers are doubles to many.
type problem struct {
	Type   string `json:"type"`
	Title  string `json:"title"`
	Status int    `json:"status"`
	Detail string `json:"detail"`
	Token  string `json:"token,omitempty"`
	Seen   string `json:"seen,omitempty"`
}

// plainProblem says no more than its status and a sentence.
func plainProblem(status int, detail string) problem {
	return problem{Type: "about:blank", Title: http.StatusText(status), Status: status, Detail: detail}
}

// Refuse answers a request that a fence did not let write. For a *StaleError, say of [Row.Do], that is 409 with a
// problem (RFC 9457) that has both tokens and that [RoundTripper] turns back into the error. For any other
// holdfast.ErrStale it is 409 too. For all else it is 503, and the client is not told what went wrong inside.
func Refuse(w http.ResponseWriter, err error) {
	var stale *StaleError
	switch {
	case errors.As(err, &stale):
		problem{
			Type: staleType, Title: "Stale fencing token", Status: http.StatusConflict, Detail: stale.Error(),
			Token: Pad(stale.Token), Seen: Pad(stale.Seen),
		}.write(w)
	case errors.Is(err, holdfast.ErrStale):
		plainProblem(http.StatusConflict, "Somebody else has written meanwhile.").write(w)
	default:
		plainProblem(http.StatusServiceUnavailable, "The fence could not be asked.").write(w)
	}
}

func (p problem) write(w http.ResponseWriter) {
	body, err := json.Marshal(p)
	if err != nil { // strings and a number always can be
		panic(err)
	}
	w.Header().Set("Content-Type", problemMedia)
	w.WriteHeader(p.Status)
	w.Write(append(body, '\n')) //nolint:errcheck // a client that is gone needs no answer
}

// isProblem says whether an answer may be one that Refuse wrote.
func isProblem(resp *http.Response) bool {
	media, _, err := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	return err == nil && media == problemMedia && resp.StatusCode == http.StatusConflict
}

// staleFrom reads the body of a problem that Refuse wrote for a *StaleError, and fails for any other.
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
