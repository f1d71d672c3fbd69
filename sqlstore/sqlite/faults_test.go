package sqlite

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast"
)

// TestOpenRefuses: what cannot be a store is refused at once, with a sentence that says what is wrong, the file's
// path, and never "locked".
func TestOpenRefuses(t *testing.T) {
	dir := t.TempDir()
	text := filepath.Join(dir, "text")
	check(t, os.WriteFile(text, []byte(strings.Repeat("this is no database\n", 100)), 0o600))
	future := filepath.Join(dir, "future.db")
	openClient(t, future).Close()
	operate(t, future, "UPDATE holdfast_meta SET format = 2")
	emptied := filepath.Join(dir, "emptied.db")
	openClient(t, emptied).Close()
	operate(t, emptied, "DELETE FROM holdfast_meta")

	for url, want := range map[string]string{
		"sqlite:":                "which file?",
		"sqlite::memory:":        "open memory:",
		"sqlite://host/locks.db": "no host",
		"sqlite:" + dir:          "cannot be opened",
		"sqlite:" + filepath.Join(dir, "no", "where"): "folder is not there",
		"sqlite:" + text:                "not a SQLite database",
		"sqlite:" + future:              "newer version",
		"sqlite:" + emptied:             "holdfast_meta is empty",
		"sqlite:" + text + "?mode=fast": `unknown parameter "mode"`,
	} {
		locks, err := holdfast.Open(t.Context(), url)
		if err == nil {
			locks.Close()
			t.Errorf("%s was opened", url)
			continue
		}
		if !strings.Contains(err.Error(), want) || errors.Is(err, holdfast.ErrLocked) {
			t.Errorf("%s: %v, want %q in it", url, err, want)
		}
	}
	if content, err := os.ReadFile(text); err != nil || !strings.HasPrefix(string(content), "this is no database") {
		t.Errorf("a file that is no database was written to: %v", err)
	}
}

// operate does to a file what an operator with a database shell could.
func operate(t testing.TB, path, statement string, args ...any) {
	t.Helper()
	check(t, tryOperate(path, statement, args...))
}

func tryOperate(path, statement string, args ...any) error {
	f, err := openFile(path, privateMode)
	if err != nil {
		return err
	}
	defer f.close()
	for {
		if err = f.exec(statement, args...); !isBusy(err) {
			return err
		}
	}
}
