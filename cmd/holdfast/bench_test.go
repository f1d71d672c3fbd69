//go:build unix

package main_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

// BenchmarkRun compares what `holdfast run x -- true` costs with flock(1), in CPU time of all processes together. A
// program in Go costs more to start than one in C, so the start of one that does nothing is added to flock's. The two
// take turns, and the medians are compared. They differ by the lock alone: holdfast's is fair, has a fencing token, and
// ends with its holder.
func BenchmarkRun(b *testing.B) {
	flock, err := exec.LookPath("flock")
	if err != nil {
		b.Skip("there is no flock here")
	}
	folder := b.TempDir()
	nothing := buildNothing(b, folder)
	b.Setenv("HOLDFAST_STORE", "sqlite:"+filepath.Join(folder, "locks.db"))
	file := filepath.Join(folder, "file")
	cost := func(name string, args ...string) time.Duration {
		cmd := exec.Command(name, args...)
		if out, err := cmd.CombinedOutput(); err != nil {
			b.Fatalf("%s: %v\n%s", name, err, out)
		}
		return cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	}
	cost(program, "run", "x", "--", "true") // makes the store
	var ours, theirs []time.Duration
	for b.Loop() {
		ours = append(ours, cost(program, "run", "x", "--", "true"))
		theirs = append(theirs, cost(flock, file, "true")+cost(nothing))
	}
	median := func(all []time.Duration) time.Duration {
		slices.Sort(all)
		return all[len(all)/2]
	}
	b.ReportMetric(float64(median(ours))/float64(median(theirs)), "x-flock")
	b.ReportMetric(float64(median(ours).Microseconds())/1000, "cpu-ms/run")
	b.ReportMetric(float64(median(theirs).Microseconds())/1000, "cpu-ms/flock")
}

// buildNothing builds a program that does nothing.
func buildNothing(b *testing.B, folder string) string {
	b.Helper()
	source, binary := filepath.Join(folder, "nothing.go"), filepath.Join(folder, "nothing")
	check(b, os.WriteFile(source, []byte("package main\n\nfunc main() {}\n"), 0o600))
	if out, err := exec.Command("go", "build", "-o", binary, source).CombinedOutput(); err != nil {
		b.Fatalf("go build: %v\n%s", err, out)
	}
	return binary
}
