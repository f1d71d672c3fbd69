package sessionqueue

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/holdfast-go/holdfast/store"
)

var kindLetters = map[store.Kind]string{store.Lock: "l", store.Semaphore: "s"}

// EncodeDemand returns the demand of a claim as KUNITS.LIMIT, where K is l for a lock and s for a semaphore.
func EncodeDemand(ask store.Demand) string {
	return fmt.Sprintf("%s%d.%d", kindLetters[ask.Kind], ask.Units, ask.Limit)
}

// DecodeDemand parses the result of EncodeDemand. It reports false for any other text.
func DecodeDemand(text string) (ask store.Demand, ok bool) {
	for kind, letter := range kindLetters {
		if rest, found := strings.CutPrefix(text, letter); found {
			units, limit, _ := strings.Cut(rest, ".")
			ask = store.Demand{Kind: kind}
			ok = ParseInt32(units, &ask.Units) && ParseInt32(limit, &ask.Limit) &&
				ask.Units > 0 && ask.Units <= ask.Limit && ask.Limit <= store.MaxReaders
			return ask, ok
		}
	}
	return ask, false
}

// ParseInt32 parses a decimal number into n. It reports false if text is not one.
func ParseInt32(text string, n *int32) bool {
	parsed, err := strconv.ParseInt(text, 10, 32)
	*n = int32(parsed)
	return err == nil
}
