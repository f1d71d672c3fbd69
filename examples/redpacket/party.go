package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/holdfast-go/holdfast"
	_ "github.com/holdfast-go/holdfast/memstore" // for the URL memory:
)

// roundTrip is how long the database of a real service would take.
const roundTrip = time.Millisecond

// A party is what the command line says.
type party struct {
	cents  int
	shares int
	users  int
	noLock bool
}

// play opens a packet, lets the users click, and checks the money.
func (p *party) play(ctx context.Context, out io.Writer) (err error) {
	h := &host{packet: &packet{shares: split(p.cents, p.shares)}, work: pause(roundTrip)}
	if !p.noLock {
		if h.locks, err = holdfast.Open(ctx, "memory:"); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, h.locks.Close()) }()
	}
	came := clickTwice(ctx, h, p.users)
	if ctx.Err() != nil {
		return fmt.Errorf("interrupted after %d draws", came.drew)
	}
	found := h.packet.audit()
	printReport(out, p, &came, &found)
	if came.failed > 0 {
		return fmt.Errorf("%d clicks failed, the first: %w", came.failed, came.failure)
	}
	return found.problem()
}
