package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"regexp"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"time"
)

// The JSON that is written. Keys of metrics are in metrics.go.
type (
	jsonRun struct {
		When    time.Time         `json:"when"`
		Command string            `json:"command"`
		OS      string            `json:"os"`
		Arch    string            `json:"arch"`
		CPUs    int               `json:"cpus"`
		Go      string            `json:"go"`
		Modules map[string]string `json:"modules"`
		Sites   map[string]string `json:"sites"`
		Quick   bool              `json:"quick"`
		Rounds  int               `json:"rounds"`
		Cases   []jsonCase        `json:"cases"`
	}
	jsonCase struct {
		Name        string     `json:"name"`
		About       string     `json:"about"`
		Processes   int        `json:"processes"`
		Goroutines  int        `json:"goroutines"`
		Names       int        `json:"names"`
		WorkMS      float64    `json:"work_ms"`
		PauseMS     float64    `json:"pause_ms"`
		Seconds     float64    `json:"seconds"`
		TTLSeconds  float64    `json:"ttl_s"`
		Leases      int        `json:"leases,omitempty"`
		Contestants []standing `json:"contestants"`
	}
)

func (r *results) json() jsonRun {
	run := jsonRun{
		When: time.Now().UTC().Truncate(time.Second), Command: r.plan.command,
		OS: runtime.GOOS, Arch: runtime.GOARCH, CPUs: runtime.NumCPU(), Go: runtime.Version(),
		Modules: modules(), Sites: map[string]string{}, Quick: r.plan.quick, Rounds: r.plan.rounds,
	}
	for kind, about := range r.sites {
		run.Sites[kind.name] = about
	}
	for _, result := range r.cases {
		w := result.workload
		c := jsonCase{
			Name: w.Name, About: w.describe(), Processes: w.Processes, Goroutines: w.Goroutines, Names: w.Names,
			WorkMS: milliseconds(w.Work), PauseMS: milliseconds(w.Pause), Seconds: w.Lasts.Seconds(),
			TTLSeconds: w.TTL.Seconds(), Leases: w.Leases, Contestants: result.standings(),
		}
		run.Cases = append(run.Cases, c)
	}
	return run
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// flat matches an object of numbers alone, such as the metrics of a round.
var flat = regexp.MustCompile(`\{\s+("[^"]*": [-+.0-9e]+,?\s+)+\}`)

// writeJSON writes the file, whole or not at all. Metrics are in one line.
func (r *results) writeJSON(path string) error {
	text, err := json.MarshalIndent(r.json(), "", "  ")
	if err != nil {
		return err
	}
	text = flat.ReplaceAllFunc(text, func(object []byte) []byte {
		return bytes.Join(bytes.Fields(object), []byte(" "))
	})
	half := path + ".part"
	if err := os.WriteFile(half, append(text, '\n'), 0o644); err != nil {
		return err
	}
	return os.Rename(half, path)
}

// measured are the modules whose versions matter.
var measured = []string{
	"github.com/bsm/redislock", "github.com/go-redsync/redsync/v4", "github.com/go-zookeeper/zk",
	"github.com/hashicorp/consul/api", "github.com/redis/go-redis/v9", "github.com/redis/rueidis",
	"go.etcd.io/etcd/client/v3",
	"modernc.org/sqlite",
}

// modules are their versions in this build.
func modules() map[string]string {
	versions := map[string]string{"org.redisson:redisson": redissonVersion}
	if build, ok := debug.ReadBuildInfo(); ok {
		for _, m := range build.Deps {
			if slices.Contains(measured, m.Path) {
				versions[m.Path] = m.Version
			}
		}
	}
	return versions
}

// describe says where and with what it was measured, in Markdown.
func (r *results) describe() string {
	run := r.json()
	out := &strings.Builder{}
	fmt.Fprintf(out, "# Locks side by side\n\n- %s, %s/%s, %d CPUs\n", run.Go, run.OS, run.Arch, run.CPUs)
	for _, name := range slices.Sorted(maps.Keys(run.Sites)) {
		fmt.Fprintf(out, "- %s: %s\n", name, run.Sites[name])
	}
	for _, path := range slices.Sorted(maps.Keys(run.Modules)) {
		fmt.Fprintf(out, "- %s %s\n", path, run.Modules[path])
	}
	return out.String()
}
