package mysql_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log"
	"os"
	"testing"

	_ "github.com/go-sql-driver/mysql"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/testkit"
	"github.com/holdfast-go/holdfast/sqlstore/mysql"
)

// Two clients, as in two processes, exclude each other through one database.
func Example() {
	ctx := context.Background()
	url := os.Getenv("DATABASE_URL") // such as mysql://app:password@db.example.com/app

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

// The program has opened a database already, and Holdfast uses its pool.
func ExampleNew() {
	ctx := context.Background()
	// Such as app:password@tcp(db.example.com)/app?interpolateParams=true.
	db, err := sql.Open("mysql", os.Getenv("DSN"))
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	s, err := mysql.New(ctx, db)
	if err != nil {
		log.Fatal(err)
	}
	locks := holdfast.New(s)
	defer locks.Close() // the database stays open

	err = locks.Mutex("inventory:42").Do(ctx, func(ctx context.Context) error {
		_, err := db.ExecContext(ctx, "UPDATE stock SET quantity = quantity - 1 WHERE item = 42")
		return err
	})
	if err != nil {
		log.Fatal(err)
	}
}

// TestExamples runs the examples on a server. They must change the data and leave no claim.
func TestExamples(t *testing.T) {
	h := newHarness(t)
	t.Setenv("DATABASE_URL", h.server.URL("root", "", database))
	t.Setenv("DSN", "root@tcp("+h.server.Addr()+")/"+database+"?interpolateParams=true")
	h.exec(t, "CREATE TABLE stock (item INT PRIMARY KEY, quantity INT NOT NULL)", "INSERT INTO stock VALUES (42, 10)")
	Example()
	ExampleNew()
	var left, claims int
	testkit.Must(t, h.db.QueryRowContext(t.Context(), "SELECT (SELECT quantity FROM "+database+".stock), "+
		"(SELECT COUNT(*) FROM "+database+".holdfast_queues)").Scan(&left, &claims))
	if left != 9 || claims != 0 {
		t.Errorf("quantity = %d, claims = %d; want 9, 0", left, claims)
	}
}
