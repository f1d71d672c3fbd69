package history

import "github.com/holdfast-go/holdfast"

// version is that of the format. Suffix is how names of files in it end.
const (
	version = 1
	suffix  = ".history.jsonl"
)

// A header is the first line of a file.
type header struct {
	History int    `json:"history"` // the version of the format
	Process string `json:"process"`
	Clock   string `json:"clock"`
	Boot    string `json:"boot"`
}

// The events.
const (
	began = "begin" // the holder believes
	still = "still" // it still does
	ended = "end"   // it has believed until then
)

// An event is one of the other lines. All but the first three fields are those of the hold that begins.
type event struct {
	Event string  `json:"event"`
	ID    uint64  `json:"id"` // tells the holds of a file apart
	At    Instant `json:"at"`

	Client   string         `json:"client,omitempty"`
	Owner    string         `json:"owner,omitempty"`
	Resource string         `json:"resource,omitempty"`
	Kind     Kind           `json:"kind,omitempty"`
	Units    int            `json:"units,omitempty"`
	Limit    int            `json:"limit,omitempty"`
	Token    holdfast.Token `json:"token,omitzero"` // in decimal, as text
}
