package sqlite_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/sqlstore/sqlite"
)

// Two clients, as in two processes, exclude each other through one file.
func Example() {
	ctx := context.Background()
	folder, err := os.MkdirTemp("", "example")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(folder)
	url := "sqlite:" + filepath.Join(folder, "locks.db")

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
	lease, err := second.Mutex("nightly report").TryLock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("then the second client has the lock:", lease.Err() == nil)
	lease.Unlock(ctx)
	// Output:
	// the second client is locked out: true
	// then the second client has the lock: true
}

// Open takes a path as it is, without the escapes of a URL, and options.
func ExampleOpen() {
	ctx := context.Background()
	folder, err := os.MkdirTemp("", "example")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(folder)

	s, err := sqlite.Open(ctx, filepath.Join(folder, "locks?.db"), sqlite.WithPrefix("tenant-1:"))
	if err != nil {
		log.Fatal(err)
	}
	locks := holdfast.New(s)
	defer locks.Close()
	err = locks.Mutex("nightly report").Do(ctx, func(context.Context) error {
		fmt.Println("held")
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}
	// Output: held
}
