package main

// A claim is a box in the picture of queues. One whose note is "held" is drawn so.
type claim struct{ text, note string }

// queue draws three queues: of a mutex, a read-write lock and a semaphore.
func queue() string {
	const width, left, claimWidth, gap = 800, 150, 124, 10
	d := newDrawing(width, 356, "Queues of claims",
		"Three queues in order of arrival. In each, the longest prefix that fits is held and the rest waits.")
	d.text("title", "start", 24, 36, "Claims wait in a queue. The longest prefix that fits is held.")
	rows := []struct {
		name, kind string
		claims     []claim
	}{
		{"Mutex", "one holder", []claim{
			{"A", "held"}, {"B", "next"}, {"C", "waits"},
		}},
		{"RWMutex", "readers or one writer", []claim{
			{"reader", "held"}, {"reader", "held"}, {"writer", "next"}, {"reader", "waits behind it"},
		}},
		{"Semaphore", "3 units", []claim{
			{"2 units", "held"}, {"1 unit", "held"}, {"2 units", "next"}, {"1 unit", "does not overtake"},
		}},
	}
	for i, row := range rows {
		y := 62 + i*92
		d.text("title", "start", 24, y+28, row.name)
		d.text("quiet", "start", 24, y+47, row.kind)
		x := left + 34
		for _, c := range row.claims {
			class := "waiting"
			if c.note == "held" {
				class = c.note
			}
			d.box(class, x, y, claimWidth, 62)
			d.text("", "middle", x+claimWidth/2, y+27, c.text)
			d.text("quiet", "middle", x+claimWidth/2, y+48, c.note)
			x += claimWidth + gap
		}
		d.arrow("line", x+38, y+31, x+4, y+31)
		if i == 0 {
			d.text("quiet", "start", x+46, y+35, "new claims arrive here")
		}
	}
	d.text("quiet", "start", 24, 342,
		"When a holder releases its claim, or dies and its ttl has passed, the next claims that fit are granted "+
			"and notified.")
	return d.end()
}
