package cronlock_test

import (
	"bytes"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/robfig/cron/v3"

	"github.com/holdfast-go/holdfast/adapters/cronlock"
	"github.com/holdfast-go/holdfast/internal/leaks"
	"github.com/holdfast-go/holdfast/internal/testkit"
)

func TestMain(m *testing.M) { leaks.Main(m) }

// parse returns the schedule of a cron expression.
func parse(t *testing.T, spec string) cron.Schedule {
	t.Helper()
	schedule, err := cron.ParseStandard(spec)
	testkit.Must(t, err)
	return schedule
}

// A lateSchedule is what a schedule is to a machine whose clock is late: everything comes later.
type lateSchedule struct {
	cron.Schedule
	by time.Duration
}

func (s lateSchedule) Next(t time.Time) time.Time { return s.Schedule.Next(t.Add(-s.by)).Add(s.by) }

// betweenMinutes waits, in a bubble, until no clock of a machine is near a full minute.
func betweenMinutes() { time.Sleep(time.Until(time.Now().Truncate(time.Minute).Add(30 * time.Second))) }

// start starts a machine with one job. end stops it and waits for the job.
func start(schedule cron.Schedule, job cron.Job) (end func()) {
	c := cron.New(cron.WithLocation(time.UTC), cron.WithLogger(cron.DiscardLogger))
	c.Schedule(schedule, job)
	c.Start()
	return func() { <-c.Stop().Done() }
}

// A journal is a log that can be read.
type journal struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (j *journal) Write(p []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.Write(p)
}

// option makes the journal the log.
func (j *journal) option() cronlock.Option {
	return cronlock.WithLogger(slog.New(slog.NewTextHandler(j, nil)))
}

// want checks that the journal has one line with these words, or none without any.
func (j *journal) want(t *testing.T, words ...string) {
	t.Helper()
	j.mu.Lock()
	defer j.mu.Unlock()
	text := j.text.String()
	if lines := strings.Count(text, "\n"); lines != min(len(words), 1) {
		t.Errorf("%d lines are logged:\n%s", lines, text)
	}
	for _, word := range words {
		if !strings.Contains(text, word) {
			t.Errorf("%q is not in the log:\n%s", word, text)
		}
	}
}
