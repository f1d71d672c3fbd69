package main

// A claim is a box in the picture of queues.
type claim struct {
	text, note string
	held       bool
}

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
			{"A", "held", true}, {"B", "next", false}, {"C", "waits", false},
		}},
		{"RWMutex", "readers or one writer", []claim{
			{
				"reader",
				"held",
				true,
			}, {"reader", "held", true}, {"writer", "next", false}, {"reader", "waits behind it", false},
		}},
		{"Semaphore", "3 units", []claim{
			{
				"2 units",
				"held",
				true,
			}, {"1 unit", "held", true}, {"2 units", "next", false}, {"1 unit", "does not overtake", false},
		}},
	}
	for i, row := range rows {
		y := 62 + i*92
		d.text("title", "start", 24, y+28, row.name)
		d.text("quiet", "start", 24, y+47, row.kind)
		x := left + 34
		for _, c := range row.claims {
			class := "waiting"
			if c.held {
				class = "held"
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
	d.text(
		"quiet",
		"start",
		24,
		342,
		"When a holder releases its claim, or dies and its ttl has passed, the next claims that fit are granted "+
			"and notified.",
	)
	return d.end()
}
