package main

import (
	"context"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/servers"
)

// TestSQL: locks of databases keep processes apart, and cost what they cost. PostgreSQL counts transactions up to a
// second late, so that a short measurement may miss all of them.
func TestSQL(t *testing.T) {
	for _, test := range []struct {
		kind        *siteKind
		program     string
		may         callLimits
		contestants []string
	}{
		{
			postgresSite, "postgres", callLimits{0, 20, 100},
			[]string{"raw-postgres", "holdfast-postgres", "advisory-lock", "for-update-postgres"},
		},
		{
			mariadbSite, "mariadbd", callLimits{2, 5, 100},
			[]string{"raw-mariadb", "holdfast-mariadb", "get-lock", "for-update-mariadb"},
		},
	} {
		t.Run(test.kind.name, func(t *testing.T) {
			servers.Need(t, test.program)
			on, err := test.kind.start(t.Context(), serverSettings{})
			must(t, err)
			t.Cleanup(func() {
				if err := on.Close(); err != nil {
					t.Error(err)
				}
			})
			testContestants(t, on, time.Second, test.may, test.contestants...)
			t.Run("goroutines that begin at once", func(t *testing.T) { testBeginAtOnce(t, on, test.contestants) })
		})
	}
}

// testBeginAtOnce: goroutines that want a name which is new to the database all get it, in turn.
func testBeginAtOnce(t *testing.T, on site, names []string) {
	for _, name := range names {
		c := contestantNamed(name)
		if c.onlyAlone {
			continue
		}
		where, err := on.Fresh(t.Context())
		must(t, err)
		l, err := c.open(t.Context(), where, lockTTL)
		must(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second) // MariaDB lets a row be waited for 50 s
		const many = 8
		errs := make(chan error, many)
		for range many {
			go func() {
				held, err := l.Acquire(ctx, "new")
				if err == nil {
					err = held.Release()
				}
				errs <- err
			}()
		}
		for range many {
			if err := <-errs; err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		cancel()
		must(t, l.Close())
	}
}
