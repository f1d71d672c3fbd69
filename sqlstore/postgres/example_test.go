package postgres_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log"
	"os"
	"testing"

	_ "github.com/jackc/pgx/v5/stdlib"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/fence"
	"github.com/holdfast-go/holdfast/internal/servers"
	"github.com/holdfast-go/holdfast/internal/testkit"
	"github.com/holdfast-go/holdfast/sqlstore/postgres"
)

// Two clients, as in two processes, exclude each other through one database.
func Example() {
	ctx := context.Background()
	url := os.Getenv("DATABASE_URL") // such as postgres://app@db.example.com/app

	first, err := holdfast.Open(ctx, url)
	if err != nil {
		log.Fatal(err)
	}
	defer first.Close()
	second, err := holdfast.Open(ctx, url)
	if err != nil {
		log.Fatal(err)
	}
	defer second.Close()

	err = first.Mutex("nightly report").Do(ctx, func(context.Context) error {
		_, err := second.Mutex("nightly report").TryLock(ctx)
		fmt.Println("the second client is locked out:", errors.Is(err, holdfast.ErrLocked))
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}
}

// The program has opened a database already. It contains the lock, the data and the fence that guards the data: a
// holder that was paused for longer than its lease is refused when it writes.
func ExampleNew() {
	ctx := context.Background()
	db, err := sql.Open("pgx", os.Getenv("DATABASE_URL"))
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	s, err := postgres.New(ctx, db)
	if err != nil {
		log.Fatal(err)
	}
	locks := holdfast.New(s)
	defer locks.Close() // the database stays open
	fences := fence.Table{Dialect: fence.PostgreSQL}
	if err := fences.Create(ctx, db); err != nil {
		log.Fatal(err)
	}

	err = locks.Mutex("inventory:42").Do(ctx, func(ctx context.Context) error {
		token, _ := holdfast.TokenFrom(ctx)
		return fences.Row("inventory:42").Do(ctx, db, token, func(tx *sql.Tx) error {
			_, err := tx.ExecContext(ctx, "UPDATE stock SET quantity = quantity - 1 WHERE item = 42")
			return err
		})
	})
	if err != nil {
		log.Fatal(err)
	}
}

// TestExamples runs the examples on a server. They must change the data and leave no claim.
func TestExamples(t *testing.T) {
	server := servers.Postgres(t)
	t.Setenv("DATABASE_URL", server.URL("postgres", "", "postgres"))
	db := server.DB(t)
	for _, statement := range []string{
		"CREATE TABLE stock (item bigint PRIMARY KEY, quantity bigint NOT NULL)", "INSERT INTO stock VALUES (42, 10)",
	} {
		_, err := db.ExecContext(t.Context(), statement)
		testkit.Must(t, err)
	}
	Example()
	ExampleNew()
	var left, claims int
	testkit.Must(t, db.QueryRowContext(t.Context(),
		"SELECT (SELECT quantity FROM stock), (SELECT count(*) FROM holdfast.queues)").Scan(&left, &claims))
	if left != 9 || claims != 0 {
		t.Errorf("quantity = %d, claims = %d; want 9, 0", left, claims)
	}
}
