package fence

import (
	"fmt"

	"github.com/holdfast-go/holdfast"
)

// A StaleError is a refusal: a newer token than this one was seen. It is holdfast.ErrStale.
type StaleError struct {
	Token holdfast.Token // what was refused; 0: none was given
	Seen  holdfast.Token // the newest that was seen
}

// Error names both tokens.
func (e *StaleError) Error() string {
	if e.Token == 0 {
		return fmt.Sprintf("%v: there is none, and the fence has seen %v", holdfast.ErrStale, e.Seen)
	}
	return fmt.Sprintf("%v: %v, and the fence has seen %v", holdfast.ErrStale, e.Token, e.Seen)
}

// Unwrap makes it holdfast.ErrStale.
func (e *StaleError) Unwrap() error { return holdfast.ErrStale }
