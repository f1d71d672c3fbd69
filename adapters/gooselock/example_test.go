package gooselock_test

import (
	"context"
	"database/sql"
	"fmt"
	"log"
	"testing/fstest"

	"github.com/pressly/goose/v3"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/adapters/gooselock"
	"github.com/holdfast-go/holdfast/memstore"
)

// Each replica of a program does this when it starts. One of them migrates, and the others wait for it.
func ExampleNew() {
	ctx := context.Background()
	locks := holdfast.New(memstore.New()) // or holdfast.Open with the URL of the store that all replicas use
	defer locks.Close()
	db, err := sql.Open("sqlite", ":memory:")
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	db.SetMaxOpenConns(1) // each connection to :memory: is a database of its own

	files := fstest.MapFS{ // or an embed.FS
		"1_users.sql": {Data: []byte("-- +goose Up\nCREATE TABLE users (id INTEGER PRIMARY KEY);\n")},
	}
	provider, err := goose.NewProvider(goose.DialectSQLite3, db, files)
	if err != nil {
		log.Fatal(err)
	}
	applied, err := gooselock.New(provider, locks.Mutex("migrations")).Up(ctx)
	if err != nil {
		log.Fatal(err)
	}
	for _, migration := range applied {
		fmt.Println(migration.Source.Path)
	}
	// Output:
	// 1_users.sql
}
