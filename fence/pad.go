package fence

import (
	"fmt"
	"strconv"

	"github.com/holdfast-go/holdfast"
)

// padded is how many digits the largest token has.
const padded = 20

// Pad writes a token as 20 decimal digits with leading zeros. Of two such texts the greater is the greater token, so
// that a database, a script or a service in any language compares tokens exactly, as text. A token passes 2^53, so
// where numbers are doubles two tokens can be equal that are not. holdfast.ParseToken reads it back.
func Pad(token holdfast.Token) string { return fmt.Sprintf("%0*d", padded, uint64(token)) }

// unpad reads what Pad wrote and nothing else. It also reads what is no token of a lease: 0, and any floor.
func unpad(s string) (holdfast.Token, error) {
	n, err := strconv.ParseUint(s, 10, 64)
	if err != nil || len(s) != padded {
		return 0, fmt.Errorf("holdfast: %q is no token of %d digits", s, padded)
	}
	return holdfast.Token(n), nil
}
