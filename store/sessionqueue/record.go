package sessionqueue

import (
	"encoding/json"
	"strings"

	"github.com/holdfast-go/holdfast/store/frame"
)

// Format is the prefix of all data. Another number is another format.
const Format = "1 "

// decodeRecord parses the data of a claim's node. Data that cannot be parsed, such as that of other programs, is a zero
// Record.
func decodeRecord(data string) (r frame.Record) {
	if text, ok := strings.CutPrefix(data, Format); !ok || json.Unmarshal([]byte(text), &r) != nil {
		r = frame.Record{}
	}
	return r
}
