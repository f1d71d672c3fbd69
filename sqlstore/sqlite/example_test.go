package sqlite_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/holdfast-go/holdfast"
	_ "github.com/holdfast-go/holdfast/sqlstore/sqlite"
)

// Two clients, as two processes would have, lock each other out through one file.
func Example() {
	ctx := context.Background()
	folder, err := os.MkdirTemp("", "example")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(folder)
	url := "sqlite:" + filepath.Join(folder, "locks.db")

	mine, err := holdfast.Open(ctx, url)
	if err != nil {
		log.Fatal(err)
	}
	defer mine.Close()
	yours, err := holdfast.Open(ctx, url)
	if err != nil {
		log.Fatal(err)
	}
	defer yours.Close()

	err = mine.Mutex("nightly report").Do(ctx, func(context.Context) error {
		_, err := yours.Mutex("nightly report").TryLock(ctx)
		fmt.Println("you, meanwhile, are locked out:", errors.Is(err, holdfast.ErrLocked))
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}
	lease, err := yours.Mutex("nightly report").TryLock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("and then it is yours:", lease.Err() == nil)
	lease.Unlock(ctx)
	// Output:
	// you, meanwhile, are locked out: true
	// and then it is yours: true
}
