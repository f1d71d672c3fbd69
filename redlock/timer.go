package redlock

import "time"

// now returns the time as machines count it. It is never 0, which stands for no time.
func (s *Store) now() time.Duration { return s.since(time.Now()) }

// since converts a time to how machines count it.
func (s *Store) since(t time.Time) time.Duration { return t.Sub(s.began) }

// newTimer returns a timer for a machine, which is not set yet.
func newTimer(wake func()) *time.Timer {
	t := time.AfterFunc(time.Hour, wake)
	t.Stop()
	return t
}

// setTimer sets the timer of a machine; 0 stops it. After Close no timer is set.
func (s *Store) setTimer(t *time.Timer, when time.Duration) {
	if when == 0 || s.frame.Life().Err() != nil {
		t.Stop()
	} else {
		t.Reset(when - s.now())
	}
}
