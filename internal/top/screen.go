package top

import (
	"context"
	"errors"
	"iter"
	"time"

	"github.com/gdamore/tcell/v2"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/knot"
)

// A Config is what is shown, and how.
type Config struct {
	Store    string // its name, for people
	Prefix   string // of the names that are shown
	Interval time.Duration

	Watch func(ctx context.Context, prefix string) iter.Seq2[[]holdfast.Queue, error]
	Read  knot.Reader // reads one queue, for its detail view
}

// A report is what Watch yields.
type report struct {
	batch []holdfast.Queue
	err   error
}

// watch sends what Watch yields until ctx is done. The channel is closed when Watch has ended.
func (c *Config) watch(ctx context.Context) <-chan report {
	reports := make(chan report)
	go func() {
		defer close(reports)
		for batch, err := range c.Watch(ctx, c.Prefix) {
			select {
			case reports <- report{batch, err}:
			case <-ctx.Done():
				return
			}
		}
	}()
	return reports
}

// errEnded is why the program ends when Watch has, without an error.
var errEnded = errors.New("the store cannot be watched any more")

// Run shows the queues on a screen until ctx is done or a key ends it. It initializes and finalizes the screen. The
// error is that of a Watch that has ended by itself, or of the screen.
func Run(ctx context.Context, screen tcell.Screen, c Config) error {
	if err := screen.Init(); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	quit := make(chan struct{})
	events := make(chan tcell.Event, 64)
	go screen.ChannelEvents(events, quit)
	reports := c.watch(ctx)
	found := make(chan links, 1)
	t := &terminal{Config: c, screen: screen, model: newModel(c.Store, c.Prefix), found: found}
	err := t.loop(ctx, events, reports)
	cancel()
	close(quit)
	screen.Fini()
	for range reports { // until Watch has returned
	}
	if t.following {
		<-found
	}
	return err
}

// A terminal is the model on a screen.
type terminal struct {
	Config
	screen    tcell.Screen
	model     *model
	found     chan links
	following bool // what blocks the queue of the detail view is being read
}

// loop draws after each key, and at most once in an interval after what the store reports.
func (t *terminal) loop(ctx context.Context, events <-chan tcell.Event, reports <-chan report) error {
	tick := time.NewTicker(t.Interval)
	defer tick.Stop()
	var last error
	t.draw()
	for {
		select {
		case <-ctx.Done():
			return nil
		case event, ok := <-events:
			if !ok || t.handle(event) {
				return nil
			}
			t.draw()
		case r, ok := <-reports:
			if !ok {
				return errors.Join(errEnded, last)
			}
			first := !t.model.loaded
			t.model.receive(r.batch, r.err, time.Now())
			if last = r.err; first || r.err != nil {
				t.draw()
			}
		case l := <-t.found:
			t.following = false
			t.model.links = l
			t.draw()
		case <-tick.C:
			t.follow(ctx)
			t.draw()
		}
	}
}

// handle handles an event of the screen. It reports whether the program is to end.
func (t *terminal) handle(event tcell.Event) (quit bool) {
	switch e := event.(type) {
	case *tcell.EventResize:
		t.screen.Sync()
	case *tcell.EventKey:
		if k, ok := keyOf(e); ok {
			return t.model.press(k)
		}
	}
	return false
}

var keys = map[tcell.Key]key{
	tcell.KeyUp: keyUp, tcell.KeyDown: keyDown, tcell.KeyPgUp: keyPgUp, tcell.KeyPgDn: keyPgDn,
	tcell.KeyHome: keyHome, tcell.KeyEnd: keyEnd, tcell.KeyEnter: keyEnter, tcell.KeyEscape: keyEsc,
	tcell.KeyBackspace: keyErase, tcell.KeyBackspace2: keyErase, tcell.KeyCtrlU: keyClear,
	tcell.KeyCtrlC: keyQuit, tcell.KeyCtrlD: keyQuit,
}

func keyOf(e *tcell.EventKey) (key, bool) {
	if e.Key() == tcell.KeyRune {
		return string(e.Rune()), true
	}
	k, ok := keys[e.Key()]
	return k, ok
}

// follow has it read what blocks the queue of the detail view, unless that is under way.
func (t *terminal) follow(ctx context.Context) {
	if t.model.view != viewDetail || t.following || t.Read == nil {
		return
	}
	t.following = true
	name, before := t.model.detail, t.model.links
	go func() {
		ctx, cancel := context.WithTimeout(ctx, readWithin)
		defer cancel()
		t.found <- follow(ctx, t.Read, name, before)
	}()
}

// readWithin bounds how long the queues of a detail view may take to be read.
const readWithin = 10 * time.Second

// draw draws the model as of now.
func (t *terminal) draw() {
	t.model.now = time.Now()
	t.model.draw(screenCanvas{t.screen})
	t.screen.Show()
}

// A screenCanvas draws on a screen.
type screenCanvas struct{ tcell.Screen }

func (c screenCanvas) size() (width, height int) { return c.Size() }

var styles = map[style]tcell.Style{
	plainText: tcell.StyleDefault,
	header:    tcell.StyleDefault.Bold(true).Underline(true),
	selected:  tcell.StyleDefault.Reverse(true),
	failing:   tcell.StyleDefault.Bold(true).Foreground(tcell.ColorRed),
	faint:     tcell.StyleDefault.Dim(true),
}

func (c screenCanvas) line(y int, text string, s style) { c.PutStrStyled(0, y, text, styles[s]) }
