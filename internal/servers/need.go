package servers

import (
	"os"
	"os/exec"
	"testing"
)

// howToGet says how to install the programs that tests need, on Debian.
var howToGet = map[string]string{
	"redis-server": "apt-get install redis-server",
	"cc":           "apt-get install gcc libc6-dev",
}

// Need finds a program. If it is missing, the test is skipped, or fails where tests must not be left out: with
// CI=true or HOLDFAST_REQUIRE_SERVERS set.
func Need(t testing.TB, program string) (path string) {
	t.Helper()
	path, err := exec.LookPath(program)
	if err == nil {
		return path
	}
	advice := howToGet[program]
	if advice == "" {
		advice = "put it on the PATH"
	}
	if required() {
		t.Fatalf("%s is missing, and no test may be left out here. To get it: %s", program, advice)
	}
	t.Skipf("left out, because %s is missing. To get it: %s", program, advice)
	return ""
}

func required() bool {
	return os.Getenv("CI") == "true" || os.Getenv("HOLDFAST_REQUIRE_SERVERS") != ""
}
