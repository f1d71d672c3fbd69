package servers

import (
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/testkit"
)

// In a child with this set, the tests are one test that starts the server of this name, says where, and waits to be
// killed.
const orphanEnv = "HOLDFAST_TEST_ORPHAN"

var orphans = map[string]func(testing.TB) *Server{
	"redis-server": func(t testing.TB) *Server { return Redis(t).Server },
	"postgres":     func(t testing.TB) *Server { return Postgres(t).Server }, // as another user, if this one is root
}

func TestMain(m *testing.M) { testkit.Main(m) }

func TestOrphan(t *testing.T) {
	start := orphans[os.Getenv(orphanEnv)]
	if start == nil {
		t.Skip("only in the child of TestServerEndsWithTheTestBinary")
	}
	fmt.Printf("\n%s\n", start(t).Addr())
	time.Sleep(time.Minute) // it is killed long before
}

// A fake stands in for a test that is expected to fail or to be skipped.
type fake struct {
	testing.TB
	failed, skipped bool
	said            string
	cleanups        []func()
}

func (f *fake) Helper()                 {}
func (f *fake) Failed() bool            { return f.failed }
func (f *fake) Cleanup(fn func())       { f.cleanups = append(f.cleanups, fn) }
func (f *fake) Logf(s string, a ...any) { f.said += fmt.Sprintf(s, a...) + "\n" }

func (f *fake) Errorf(s string, a ...any) {
	f.failed = true
	f.Logf(s, a...)
}

func (f *fake) Fatal(a ...any) { f.Fatalf("%s", fmt.Sprint(a...)) }

func (f *fake) Fatalf(s string, a ...any) {
	f.Errorf(s, a...)
	panic(f)
}

func (f *fake) Skipf(s string, a ...any) {
	f.skipped = true
	f.Logf(s, a...)
	panic(f)
}

// asTest runs fn as a test of its own, to its end, and reports how it went.
func asTest(t *testing.T, fn func(testing.TB)) *fake {
	t.Helper()
	f := &fake{TB: t}
	func() {
		defer func() {
			if r := recover(); r != nil && r != any(f) {
				panic(r)
			}
		}()
		fn(f)
	}()
	for i := len(f.cleanups) - 1; i >= 0; i-- {
		f.cleanups[i]()
	}
	return f
}
