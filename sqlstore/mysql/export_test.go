package mysql

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"net"
	"slices"

	"github.com/holdfast-go/holdfast/sqlstore"
	"github.com/holdfast-go/holdfast/sqlstore/routines"
	"github.com/holdfast-go/holdfast/store"
)

// Explain is what a store makes of an error.
var Explain = explain

// Prepare opens a database as a program does that knows this format, and the steps to it after those of this one.
func Prepare(ctx context.Context, db *sql.DB, format int, next ...string) error {
	return prepare(ctx, &routines.Engine{DB: db, Dialect: routines.Dialect{Format: format}},
		append(slices.Clone(migrations), next...))
}

// Own is New for a database that is not shared, and that is closed with the store, as that of Open is.
func Own(ctx context.Context, db *sql.DB) (*sqlstore.Store, error) {
	return open(ctx, &routines.Engine{DB: db, Owned: true, MaxIdle: 1, Frame: newFrame("mysql")}, &settings{})
}

// Install runs a script in the form of the schema.
func Install(ctx context.Context, conn *sql.Conn, script string) error {
	return (&installer{conn: conn}).run(ctx, script)
}

// Through has the store connect to this address instead of the one in its URL.
func Through(address string) Option { return ThroughAny(func() string { return address }) }

// ThroughAny is Through for an address that changes.
func ThroughAny(address func() string) Option {
	return func(s *settings) {
		s.dial = func(ctx context.Context, network, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, network, address())
		}
	}
}

// Connector returns what connects a store to its servers, at the addresses that way returns for those of the URL.
func Connector(url string, way func(address string) string) (driver.Connector, error) {
	at, err := store.ParseLocation(url)
	if err != nil {
		return nil, err
	}
	return connectorOf(at, &settings{dial: func(ctx context.Context, network, address string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, network, way(address))
	}})
}
