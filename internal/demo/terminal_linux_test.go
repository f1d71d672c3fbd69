package demo

import (
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// TestTerminal asks a real terminal.
func TestTerminal(t *testing.T) {
	terminal, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	must(t, err)
	defer terminal.Close()
	for _, test := range []struct {
		columns         uint16
		term, noColour  string
		plain           bool
		moves, coloured bool
	}{
		{100, "xterm", "", false, true, true},
		{100, "xterm", "1", false, true, false},
		{100, "xterm", "", true, false, false},
		{100, "dumb", "", false, false, false},
		{liveWidth - 1, "xterm", "", false, false, false},
	} {
		t.Setenv("TERM", test.term)
		t.Setenv("NO_COLOR", test.noColour)
		must(t, unix.IoctlSetWinsize(int(terminal.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: test.columns}))
		s := newScreen(terminal, test.plain)
		if moves := s.(*lines).live; moves != test.moves || bool(s.style()) != test.coloured {
			t.Errorf("%+v: it moves: %v, it has colours: %v", test, moves, s.style())
		}
	}
}
