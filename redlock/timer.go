package redlock

import "time"

// now is the time as machines count it. 0 is for no time at all.
func (s *Store) now() time.Duration { return s.since(time.Now()) }

// since is a time as machines count it.
func (s *Store) since(t time.Time) time.Duration { return t.Sub(s.began) }

// newTimer makes a timer for a machine, which is not set yet.
func newTimer(wake func()) *time.Timer {
	t := time.AfterFunc(time.Hour, wake)
	t.Stop()
	return t
}

// setTimer has a machine woken at a time; 0: not at all. When the store is closed, none is.
func (s *Store) setTimer(t *time.Timer, when time.Duration) {
	if when == 0 || s.frame.Life().Err() != nil {
		t.Stop()
	} else {
		t.Reset(when - s.now())
	}
}
