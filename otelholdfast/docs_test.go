package otelholdfast_test

import (
	"errors"
	"maps"
	"os"
	"regexp"
	"strings"
	"testing"

	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/testkit"
)

// TestTablesOfInstruments compares what is recorded with what is written about it: name, kind, unit, attributes.
func TestTablesOfInstruments(t *testing.T) {
	r := newRig(t)
	r.play(t.Context(), 0, 0, holdfast.ErrLost)
	r.observer.Renewed("memory", 1, 0, nil)
	r.observer.Jeopardy(mutex, token, 0, errors.New("no answer"))
	r.observer.HandedOver(mutex, token)
	r.observer.Deadlocked(mutex, errors.New("a cycle"))
	r.observer.Retried("memory", errors.New("could not serialize access"))
	recorded := map[string]string{}
	for _, m := range r.collect() {
		if m.Description == "" {
			t.Errorf("%s has no description", m.Name)
		}
		kind, all := "", ""
		switch data := m.Data.(type) {
		case metricdata.Sum[int64]:
			kind = "up-down counter"
			if data.IsMonotonic {
				kind = "counter"
			}
			all = labels(data.DataPoints[0].Attributes)
		case metricdata.Histogram[float64]:
			kind, all = "histogram", labels(data.DataPoints[0].Attributes)
		}
		var keys []string
		for _, key := range []string{"op", "store", "outcome"} {
			if strings.Contains(all, key+"=") {
				keys = append(keys, key)
			}
		}
		recorded[m.Name] = strings.Join([]string{kind, m.Unit, strings.Join(keys, ", ")}, "; ")
	}
	for file, line := range map[string]string{
		"doc.go":                "(?m)^//\t(holdfast\\.\\S+) {2,}(.*?) {2,}(.*?) {2,}(.*?) {2,}.*$",
		"../docs/operations.md": "(?m)^\\| `(holdfast\\S+)` \\| (.*?) \\| `(.*?)` \\| (.*?) \\| .* \\|$",
	} {
		text, err := os.ReadFile(file)
		testkit.Must(t, err)
		written := map[string]string{}
		for _, m := range regexp.MustCompile(line).FindAllStringSubmatch(string(text), -1) {
			written[m[1]] = strings.Join(m[2:], "; ")
		}
		if !maps.Equal(written, recorded) {
			t.Errorf("%s has\n%v, but recorded is\n%v", file, written, recorded)
		}
	}
}
