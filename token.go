package holdfast

import (
	"context"
	"fmt"
	"strconv"

	"github.com/holdfast-go/holdfast/store"
)

// A Token is a fencing token: a number that rises with every exclusive holder of a lock. Pass it along with each write
// to what the lock protects, and let that refuse a smaller token than it has seen (package fence). Then a holder that
// was paused beyond its lease cannot overwrite its successor's work.
//
// Its parts are ticket<<8 | shared<<7 | turn: the claim's ticket, which the store has drawn; whether the lease is
// shared (a reader's or a semaphore's; a fence checks such a token but is never raised by it); and how often the claim
// was handed over inside its process. In text and JSON it is a decimal string, because it exceeds 2^53.
type Token uint64

const sharedBit = 1 << 7

// newToken returns the token with these parts.
func newToken(ticket uint64, shared bool, turn uint8) Token {
	t := Token(ticket)<<8 | Token(turn)
	if shared {
		t |= sharedBit
	}
	return t
}

// Ticket returns the claim's ticket, the number that the store drew for it.
func (t Token) Ticket() uint64 { return uint64(t >> 8) }

// Shared reports whether the lease is a reader's or a semaphore's.
func (t Token) Shared() bool { return t&sharedBit != 0 }

// String returns the token in decimal.
func (t Token) String() string { return strconv.FormatUint(uint64(t), 10) }

// MarshalText returns the token in decimal.
func (t Token) MarshalText() ([]byte, error) { return strconv.AppendUint(nil, uint64(t), 10), nil }

// UnmarshalText parses a token as ParseToken does.
func (t *Token) UnmarshalText(text []byte) error {
	parsed, err := ParseToken(string(text))
	if err == nil {
		*t = parsed
	}
	return err
}

// ParseToken parses a token in decimal, as String writes it. It returns an error if s is not a token. 0 is not one.
func ParseToken(s string) (Token, error) {
	n, err := strconv.ParseUint(s, 10, 63)
	if err != nil || Token(n).Ticket() == 0 || Token(n).Ticket() > store.MaxTicket {
		return 0, fmt.Errorf("holdfast: %s is not a token: a token is a positive decimal number", store.Quote(s))
	}
	return Token(n), nil
}

// TokenFrom returns the token of the innermost lease that ctx comes from: ctx is a lease's Context, the context that Do
// passes to its function, or derived from one of them. It reports false if there is no such lease, and if that lease is
// one of several of LockAll: then MultiLease.Tokens has the tokens, and DoAll passes them to its function.
func TokenFrom(ctx context.Context) (Token, bool) {
	if ctx == nil {
		return 0, false
	}
	if l := leaseFrom(ctx); l != nil && !l.group {
		return l.token, true
	}
	return 0, false
}
