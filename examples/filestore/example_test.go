//go:build unix

package filestore_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"

	"github.com/holdfast-go/holdfast"
	_ "github.com/holdfast-go/holdfast/examples/filestore"
)

// A store that has registered its scheme is opened by URL, as any other.
func Example() {
	dir, err := os.MkdirTemp("", "holdfast")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	ctx := context.Background()
	locks, err := holdfast.Open(ctx, "file:"+dir)
	if err != nil {
		log.Fatal(err)
	}
	defer locks.Close()
	lease, err := locks.Mutex("nightly").Lock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	_, err = locks.Mutex("nightly").TryLock(ctx)
	fmt.Println(errors.Is(err, holdfast.ErrLocked))
	if err := lease.Unlock(ctx); err != nil {
		log.Fatal(err)
	}
	// Output:
	// true
}
