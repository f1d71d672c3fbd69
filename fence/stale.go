package fence

import (
	"fmt"

	"github.com/holdfast-go/holdfast"
)

// A StaleError refuses a token because the fence has seen a newer one. It is a holdfast.ErrStale.
type StaleError struct {
	Token holdfast.Token // the one that was refused; 0: none was sent
	Seen  holdfast.Token // the newest that the fence has seen
}

// Error returns a text with both tokens.
func (e *StaleError) Error() string {
	if e.Token == 0 {
		return fmt.Sprintf("%v: none was sent, and the fence has seen %v", holdfast.ErrStale, e.Seen)
	}
	return fmt.Sprintf("%v: %v, and the fence has seen %v", holdfast.ErrStale, e.Token, e.Seen)
}

// Unwrap returns holdfast.ErrStale.
func (e *StaleError) Unwrap() error { return holdfast.ErrStale }
