package fence_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/fence"
	"github.com/holdfast-go/holdfast/memstore"
)

// open is a database in memory with one account of 100 and one item of 10.
func open() *sql.DB {
	db, err := sql.Open("sqlite", ":memory:")
	if err != nil {
		log.Fatal(err)
	}
	db.SetMaxOpenConns(1) // each connection would have a memory of its own
	_, err = db.Exec(`
		CREATE TABLE accounts (id INTEGER PRIMARY KEY, balance INTEGER NOT NULL);
		INSERT INTO accounts VALUES (7, 100);
		CREATE TABLE items (id INTEGER PRIMARY KEY, stock INTEGER NOT NULL, version BIGINT NOT NULL DEFAULT 0);
		INSERT INTO items (id, stock) VALUES (42, 10);`)
	if err != nil {
		log.Fatal(err)
	}
	return db
}

func ExampleRow() {
	db := open()
	defer db.Close()
	locks := holdfast.New(memstore.New())
	defer locks.Close()
	ctx := context.Background()

	fences := fence.Table{Dialect: fence.SQLite}
	if err := fences.Create(ctx, db); err != nil { // or put fences.DDL() into your migrations
		log.Fatal(err)
	}
	account := fences.Row("account:7")

	var late holdfast.Token
	withdraw := func(ctx context.Context, token holdfast.Token, amount int) error {
		return account.Do(ctx, db, token, func(tx *sql.Tx) error {
			_, err := tx.ExecContext(ctx, "UPDATE accounts SET balance = balance - ? WHERE id = 7", amount)
			return err
		})
	}
	for _, amount := range []int{10, 20} {
		err := locks.Mutex("account:7").Do(ctx, func(ctx context.Context) error {
			token, _ := holdfast.TokenFrom(ctx)
			if late == 0 {
				late = token
			}
			return withdraw(ctx, token, amount)
		})
		fmt.Println(amount, err)
	}

	// A write that comes late, from whoever held the lock first, is refused.
	err := withdraw(ctx, late, 50)
	fmt.Println("refused:", errors.Is(err, holdfast.ErrStale))

	var balance int
	if err := db.QueryRow("SELECT balance FROM accounts").Scan(&balance); err != nil {
		log.Fatal(err)
	}
	fmt.Println("balance:", balance)
	// Output:
	// 10 <nil>
	// 20 <nil>
	// refused: true
	// balance: 70
}

// A transaction of your own is guarded if Enter is its first statement.
func ExampleRow_Enter() {
	db := open()
	defer db.Close()
	ctx := context.Background()
	fences := fence.Table{Dialect: fence.SQLite}
	if err := fences.Create(ctx, db); err != nil {
		log.Fatal(err)
	}

	tx, err := db.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelSerializable})
	if err != nil {
		log.Fatal(err)
	}
	defer tx.Rollback()
	if err := fences.Row("account:7").Enter(ctx, tx, holdfast.Token(9<<8)); err != nil {
		log.Fatal(err)
	}
	if _, err := tx.ExecContext(ctx, "UPDATE accounts SET balance = 0 WHERE id = 7"); err != nil {
		log.Fatal(err)
	}
	fmt.Println(tx.Commit())

	fmt.Println(fences.Row("account:7").Enter(ctx, db, holdfast.Token(8<<8)))
	// Output:
	// <nil>
	// holdfast: stale token: 2048, and the fence has seen 2304
}

func ExampleVersioned() {
	db := open()
	defer db.Close()
	ctx := context.Background()
	items := fence.Versioned{Dialect: fence.SQLite, Table: "items", Key: "id"}

	var stock int
	version, err := items.Read(ctx, db, 42, fence.Columns{"stock": &stock})
	fmt.Println(stock, version, err)

	err = items.Update(ctx, db, 42, version, fence.Columns{"stock": stock - 1})
	fmt.Println(err)

	// Somebody else had read the same version.
	err = items.Update(ctx, db, 42, version, fence.Columns{"stock": stock - 3})
	fmt.Println(err)
	fmt.Println(errors.Is(err, holdfast.ErrStale))
	// Output:
	// 10 0 <nil>
	// <nil>
	// holdfast: stale version: a row of items was read at 0 and is at 1
	// true
}

func ExampleMiddleware() {
	// The service has the data, and a gate beside it.
	var gate fence.Gate
	stock := 10
	mux := http.NewServeMux()
	mux.Handle("POST /sell", fence.Middleware(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		stock-- // alone: the gate is held
	}), fence.GateGuard(func(*http.Request) *fence.Gate { return &gate })))
	service := httptest.NewServer(mux)
	defer service.Close()

	// Its client works under a lock.
	locks := holdfast.New(memstore.New())
	defer locks.Close()
	client := &http.Client{Transport: &fence.RoundTripper{}}
	defer client.CloseIdleConnections()
	sell := func(ctx context.Context) error {
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, service.URL+"/sell", strings.NewReader(""))
		if err != nil {
			return err
		}
		resp, err := client.Do(req)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		fmt.Println(resp.Status)
		return nil
	}

	ctx := context.Background()
	fmt.Println(locks.Mutex("stock").Do(ctx, sell))
	fmt.Println(sell(ctx)) // without a lock, and so without a token

	gate.SetFloor(1 << 62) // as if a holder far in the future had been there
	err := locks.Mutex("stock").Do(ctx, sell)
	fmt.Println(errors.Is(err, holdfast.ErrStale), stock)
	// Output:
	// 200 OK
	// <nil>
	// 428 Precondition Required
	// <nil>
	// true 9
}

func ExamplePad() {
	fmt.Println(fence.Pad(holdfast.Token(9 << 8)))
	fmt.Println(fence.Pad(900) < fence.Pad(1000), "900" < "1000")
	// Output:
	// 00000000000000002304
	// true false
}
