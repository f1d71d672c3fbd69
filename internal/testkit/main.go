package testkit

import (
	"flag"
	"fmt"
	"os"
	"runtime"
	"testing"

	"github.com/holdfast-go/holdfast/internal/leaks"
)

// Main runs the tests of a package and exits, with an error if goroutines are left. It is for TestMain.
//
// Most tests of a store wait for a server or for a ttl. So two of them run in parallel on each processor, unless the
// command line sets the number. With more, servers of several nodes starve.
func Main(m *testing.M) {
	flag.Parse()
	said := false
	flag.Visit(func(f *flag.Flag) { said = said || f.Name == "test.parallel" })
	if !said {
		if err := flag.Set("test.parallel", fmt.Sprint(2*runtime.GOMAXPROCS(0))); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(2)
		}
	}
	leaks.Main(m)
}
