// Package dbserver has what the stores on database servers share beside their calls, which are in package routines: how
// connections are bounded, how a store is opened, and what doctor reports of a server.
package dbserver

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/sqlstore"
	"github.com/holdfast-go/holdfast/sqlstore/routines"
	"github.com/holdfast-go/holdfast/store"
)

const (
	// OpenTimeout bounds opening a store.
	OpenTimeout = 10 * time.Second

	// MaxConnections bounds the connections of a store that was opened by URL, beside one that listens.
	MaxConnections = 8
	// MaxIdle and maxAge bound how long its connections may be idle, and how old they may become.
	MaxIdle = 5 * time.Minute
	maxAge  = time.Hour

	// farOff is how far a server's clock may be off without a warning.
	farOff = 10 * time.Second
)

// pace is how often a client polls while its claims wait.
var pace = sqlstore.Pace{First: 2 * time.Millisecond, Most: 100 * time.Millisecond, Listening: 500 * time.Millisecond}

// A FinalError is an error that a retry does not fix.
type FinalError string

// Error returns the text.
func (e FinalError) Error() string { return string(e) }

// Bound bounds the connections of a store that was opened by URL, and returns db.
func Bound(db *sql.DB) *sql.DB {
	db.SetMaxOpenConns(MaxConnections)
	db.SetMaxIdleConns(MaxConnections)
	db.SetConnMaxIdleTime(MaxIdle)
	db.SetConnMaxLifetime(maxAge)
	return db
}

// Open prepares the database of r for use, and returns the store that uses e, which is r with what is particular to the
// database. If that fails, it closes r.
func Open(
	ctx context.Context, e sqlstore.Engine, r *routines.Engine, prepare func(context.Context) error,
) (*sqlstore.Store, error) {
	r.Tokens = store.SurvivesRestart | store.SurvivesDataLoss | store.SurvivesClockBack
	within, cancel := context.WithTimeout(ctx, OpenTimeout)
	defer cancel()
	if err := prepare(within); err != nil {
		return nil, errors.Join(r.Frame.Outcome(ctx, within, OpenTimeout, err), r.Close())
	}
	_ = r.Sweep(within) // a failure is harmless: expired claims block no client
	return sqlstore.New(e, r.Frame, pace), nil
}

// Unreadable returns the finding that the settings of a server cannot be read.
func Unreadable(err error) []store.Finding {
	return []store.Finding{{
		Check: "server", Level: store.Warn, Found: "its settings cannot be read: " + err.Error(),
		Why: "whether the server keeps what it has acknowledged is not known", Fix: "run doctor again",
	}}
}

// Clock compares a server's clock with this machine's.
func Clock(server, here time.Time) store.Finding {
	ahead := server.Sub(here).Round(time.Millisecond)
	found := store.Finding{Check: "clock", Found: fmt.Sprintf("the server's clock is %v from this machine's", ahead)}
	if ahead.Abs() > farOff {
		found.Level = store.Warn
		found.Why = "deadlines are counted by the server's clock alone; one that is stepped forward ends leases at once"
		found.Fix = "synchronise the clocks of server and clients (chrony, systemd-timesyncd), and let them be " +
			"slewed, not stepped"
	}
	return found
}

// Expired returns the finding that claims are in the tables five minutes after they expired. list is SQL that lists
// them.
func Expired(claims int, list string) store.Finding {
	return store.Finding{
		Check: "tables", Level: store.Warn,
		Found: fmt.Sprintf("%d claims expired five minutes ago and are still there", claims),
		Why: "clients remove them every minute; they are in a queue that none can write to, or the clock " +
			"was set back",
		Fix: list + "; holdfast break NAME",
	}
}
