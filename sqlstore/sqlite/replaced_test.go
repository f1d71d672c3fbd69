//go:build unix

package sqlite

import (
	"errors"
	"os"
	"testing"

	"github.com/holdfast-go/holdfast/store"
)

// On Windows an open file cannot be removed.

// deleteFile removes a file with all that SQLite has beside it.
func deleteFile(t *testing.T, path string) {
	t.Helper()
	check(t, (&harness{path: path}).Restart(false))
}

// An opened is what came of opening a file.
type opened struct {
	*engine
	err error
}

// openLater opens a file while the test does something else.
func openLater(t *testing.T, path string) <-chan opened {
	opening := make(chan opened, 1)
	go func() {
		e, err := newEngine(t.Context(), path)
		if err == nil {
			t.Cleanup(func() { e.Close() })
		}
		opening <- opened{e, err}
	}()
	return opening
}

// TestReplacedFileTellsEveryone: grants in the old file mean nothing, and those in the new one were not pushed.
func TestReplacedFileTellsEveryone(t *testing.T) {
	path := newPath(t)
	e := open(t, path)
	told := heard(t, e)
	deleteFile(t, path)
	if _, err := e.Names(t.Context(), ""); err != nil {
		t.Fatal(err)
	}
	wantPush(t, told, store.Everyone)
}

// TestReplacedWhileItIsOpened: what SQLite has opened is no longer the file of this path when it is looked at.
// Nothing is done in it.
func TestReplacedWhileItIsOpened(t *testing.T) {
	path := newPath(t)
	check(t, open(t, path).Close())
	reached, goOn := connected.hold(t)
	opening := openLater(t, path)
	<-reached
	deleteFile(t, path)
	other := open(t, path)
	join(t, other, newClaim("x"), store.Held)
	goOn()
	o := <-opening
	if o.err != nil {
		t.Fatal(o.err)
	}
	join(t, o.engine, newClaim("x"), store.Waiting)
}

// TestVanishesWhileItIsOpened: that is no reason to give up, since the file is made anew.
func TestVanishesWhileItIsOpened(t *testing.T) {
	path := newPath(t)
	open(t, path)
	reached, goOn := connected.hold(t)
	opening := openLater(t, path)
	<-reached
	deleteFile(t, path)
	goOn()
	if o := <-opening; o.err != nil {
		t.Errorf("%v, final %v", o.err, store.Final(o.err))
	}
}

// TestLogRemoved: the log and its index are removed, but not the file. SQLite would continue in those that were
// removed, beside clients that have made new ones.
func TestLogRemoved(t *testing.T) {
	path := newPath(t)
	e := open(t, path)
	c := joined(t, e, "x", store.Held)
	for _, suffix := range []string{"-wal", "-shm"} {
		check(t, os.Remove(path+suffix))
	}
	startHolder(t, path, "x", long).token(t)
	eventually(t, "the old holder is told", func() bool {
		a, err := e.Keep(t.Context(), []store.Claim{*c})
		return err == nil && a[0].State == store.Gone
	})
}

// TestReopenedIsAChange: what was written while the file was not open was not seen.
func TestReopenedIsAChange(t *testing.T) {
	e := open(t, newPath(t))
	want := func(what string, want bool) {
		if changed, err := e.Changed(t.Context()); err != nil || changed != want {
			t.Errorf("%s: changed %v, %v", what, changed, err)
		}
	}
	want("at first", true)
	want("nothing was written", false)
	_, err := write(t.Context(), e, func(*transaction) (int, error) { return 0, errors.New("poison") })
	if err == nil {
		t.Fatal("it was not undone")
	}
	want("opened anew", true)
	want("and then not any more", false)
}
