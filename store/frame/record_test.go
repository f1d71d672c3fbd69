package frame_test

import (
	"encoding/json"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/frame"
)

// TestRecord: what a claim's record says is shown to others, and since when it is held once that is worth a write.
func TestRecord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := store.Claim{Turn: 3, Owner: &store.Owner{Host: "h"}, Waits: []store.Wait{{Name: "other"}}}
		joined := time.Now()
		time.Sleep(time.Minute)
		granted := time.Now()
		for _, test := range []struct {
			state store.State
			held  time.Duration
			since time.Time
		}{
			{store.Waiting, 0, joined},
			{store.Held, time.Second, joined},
			{store.Held, 2 * time.Second, granted},
		} {
			at := granted
			if test.state == store.Waiting {
				at = time.Time{}
			}
			time.Sleep(time.Until(granted.Add(test.held)))
			text, ok := strings.CutPrefix(frame.Encode("7 ", frame.NewRecord(&c, 10*time.Second, joined, at)), "7 ")
			var r frame.Record
			if err := json.Unmarshal([]byte(text), &r); err != nil || !ok {
				t.Fatalf("%s: %v", text, err)
			}
			p := store.Entry{State: test.state}
			r.Show(&p)
			if p.Turn != 3 || p.Owner.Host != "h" || len(p.Waits) != 1 || p.TTL != 10*time.Second || p.Left != p.TTL {
				t.Errorf("it is shown as %+v", p)
			}
			if !p.Since.Equal(test.since) {
				t.Errorf("%v, granted for %v: it is shown since %v, want %v", test.state, test.held, p.Since,
					test.since)
			}
		}
	})
}

// TestRecordSaysNothing: a record that is empty is shown as one of an unknown owner.
func TestRecordSaysNothing(t *testing.T) {
	made := time.Unix(1, 0)
	p := store.Entry{Since: made}
	new(frame.Record).Show(&p)
	if p.Owner == nil || !p.Since.Equal(made) {
		t.Errorf("it is shown as %+v", p)
	}
}
