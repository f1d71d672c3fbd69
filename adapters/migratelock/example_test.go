package migratelock_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"testing/fstest"

	"github.com/golang-migrate/migrate/v4"
	"github.com/golang-migrate/migrate/v4/database"
	_ "github.com/golang-migrate/migrate/v4/database/sqlite" // or that of another database
	"github.com/golang-migrate/migrate/v4/source/iofs"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/adapters/migratelock"
	"github.com/holdfast-go/holdfast/memstore"
)

// Each replica of a program does this when it starts. One of them migrates, and the others wait for it.
func ExampleNew() {
	ctx := context.Background()
	locks := holdfast.New(memstore.New()) // or holdfast.Open with the URL of the store that all replicas use
	defer locks.Close()

	files, err := iofs.New(fstest.MapFS{ // or an embed.FS
		"1_users.up.sql": {Data: []byte("CREATE TABLE users (id INTEGER PRIMARY KEY)")},
	}, ".")
	if err != nil {
		log.Fatal(err)
	}
	driver, err := database.Open("sqlite://:memory:")
	if err != nil {
		log.Fatal(err)
	}
	m, err := migratelock.New(ctx, locks.Mutex("migrations"), "iofs", files, "sqlite", driver)
	if err != nil {
		log.Fatal(err)
	}
	defer m.Close()
	if err := m.Up(); err != nil && !errors.Is(err, migrate.ErrNoChange) {
		log.Fatal(err)
	}
	version, dirty, err := m.Version()
	fmt.Println("version", version, dirty, err)
	// Output:
	// version 1 false <nil>
}
