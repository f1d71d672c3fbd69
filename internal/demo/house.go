package demo

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast"
	_ "github.com/holdfast-go/holdfast/sqlstore/sqlite" // for the file that the demo makes if it is given no store
	"github.com/holdfast-go/holdfast/store"
)

// A house is Holdfast's store as the coordinator uses it: it learns what the store can do before the first round, and
// leaves nothing in it after the last.
type house struct {
	url      string
	place    string // for people
	name     string // of the one lock
	ttl      time.Duration
	takeover time.Duration
	locks    *holdfast.Client
}

func openHouse(ctx context.Context, url string) (*house, error) {
	at, err := store.ParseLocation(url)
	if err != nil {
		return nil, fmt.Errorf("holdfast: %w", err)
	}
	if at.TTL == 0 { // a store whose time is a session takes it from there
		url += separator(url) + "ttl=" + shortTTL.String()
		at.TTL = shortTTL
	}
	s, err := store.Open(ctx, at)
	if err != nil {
		return nil, &holdfast.Error{Op: "open", Store: at.ShownFor(err), Err: err}
	}
	can := s.Abilities()
	h := &house{url: url, place: can.Store, name: unique(), ttl: max(shortTTL, can.MinTTL, can.SessionTTL)}
	h.takeover = time.Duration(can.TakeoverTTLs)*h.ttl + can.TakeoverPlus
	h.locks = holdfast.New(s, holdfast.TTL(h.ttl))
	return h, nil
}

// separator is what comes before a further parameter of a URL.
func separator(url string) string {
	if strings.Contains(url, "?") {
		return "&"
	}
	return "?"
}

// close takes out whoever was killed and still stands in the line, and closes the store.
func (h *house) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), farewell)
	defer cancel()
	return errors.Join(h.sweep(ctx), h.locks.Close())
}

func (h *house) sweep(ctx context.Context) error {
	line, err := h.locks.Inspect(ctx, h.name)
	if err != nil {
		return err
	}
	for _, place := range line.Places {
		if err := h.locks.Break(ctx, h.name, place.Token); err != nil && !errors.Is(err, holdfast.ErrNotHeld) {
			return err
		}
	}
	return nil
}
