package fence

import (
	"fmt"
	"strconv"

	"github.com/holdfast-go/holdfast"
)

// padded is how many digits the largest token has.
const padded = 20

// Pad writes a token as 20 decimal digits with leading zeros. Such texts have the order of the tokens, so that a
// database, a script or a service in any language compares tokens exactly, as text. Tokens exceed 2^53: where numbers
// are doubles, two different tokens can seem equal. holdfast.ParseToken reads the text back.
func Pad(token holdfast.Token) string { return fmt.Sprintf("%0*d", padded, uint64(token)) }

// unpad reads what Pad wrote and nothing else, including 0 and floors, which no lease has.
func unpad(s string) (holdfast.Token, error) {
	n, err := strconv.ParseUint(s, 10, 64)
	if err != nil || len(s) != padded {
		return 0, fmt.Errorf("holdfast: %q is not a token of %d digits", s, padded)
	}
	return holdfast.Token(n), nil
}
