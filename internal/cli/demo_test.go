package cli

import (
	"strings"
	"testing"
)

func TestDemoUsage(t *testing.T) {
	for _, test := range []struct {
		args []string
		code int
		want string // on stderr
	}{
		{[]string{"demo", "now"}, exitUsage, `unknown command "now"`},
		{[]string{"demo", "--items=few"}, exitUsage, "see holdfast demo --help"},
		{[]string{"demo", "--workers=2"}, exitUsage, "the demo needs 3 to 16 workers"},
		{[]string{"demo", "--items=0"}, exitUsage, "the demo needs 20 to 10000 items"},
		{[]string{"demo", "--store=memory:"}, exitUsage, "a memory: store is inside one process"},
		{[]string{"demo", "--store=abacus:"}, exitUnshown, `no store is registered`},
		{[]string{"demo", "worker"}, exitUnshown, "started by holdfast demo"},
	} {
		bare(t, test.args...).complains(t, test.code, test.want)
	}
}

func TestDemoHelp(t *testing.T) {
	got := call(t, "demo", "--help")
	for _, want := range []string{"holdfast demo --store redis://", "--items", "--workers", "--plain"} {
		got.want(t, 0, want, nothing)
	}
	if strings.Contains(got.out, "worker ") {
		t.Errorf("the help has what is only for the demo itself:\n%s", got.out)
	}
}
