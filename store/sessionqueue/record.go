package sessionqueue

import (
	"encoding/json"
	"strings"

	"github.com/holdfast-go/holdfast/store/frame"
)

// Format is what all data begins with. Another number there is another format.
const Format = "1 "

// decodeRecord reads the data of a claim's node. What can't be read, as that of other programs, has no meaning here.
func decodeRecord(data string) (r frame.Record) {
	if text, ok := strings.CutPrefix(data, Format); !ok || json.Unmarshal([]byte(text), &r) != nil {
		r = frame.Record{}
	}
	return r
}
