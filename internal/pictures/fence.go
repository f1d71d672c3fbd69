package main

// fence draws how a fence refuses the write of a holder that was paused.
func fence() string {
	const width, left, right = 800, 84, 776
	d := newDrawing(width, 340, "A late write and its fence",
		"A holds the lock with token 33 and is paused. Its lease expires. B acquires the lock with token 34 and "+
			"writes. A wakes up and writes with token 33: the fence at the data has seen 34 and refuses it.")
	d.text("title", "start", 24, 36, "A lock cannot stop a late write. A fence at the data can.")
	const a, b, data = 84, 164, 248
	d.text("title", "start", 24, a+26, "A")
	d.text("title", "start", 24, b+26, "B")
	d.text("title", "start", 24, data+22, "data")
	d.line("line", left, a+21, right, a+21)
	d.line("line", left, b+21, left+470, b+21)
	d.box("data", left, data, right-left, 36)

	d.box("held", left+8, a, 130, 42)
	d.text("", "middle", left+73, a+26, "holds, token 33")
	d.box("paused", left+138, a, 300, 42)
	d.text("", "middle", left+288, a+26, "paused for a minute")
	d.text("quiet", "start", left+262, a-9, "its lease expires")
	d.line("line", left+256, a-18, left+256, a-2)

	d.box("held", left+270, b, 180, 42)
	d.text("", "middle", left+360, b+26, "holds, token 34")
	d.arrow("good", left+360, b+42, left+360, data-2)
	d.text("goodtext", "end", left+350, b+66, "write with token 34: accepted")

	d.box("refused", left+438, a, 136, 42)
	d.text("", "middle", left+506, a+26, "wakes up, writes")
	d.arrow("bad", left+506, a+42, left+506, data-2)
	d.text("badtext", "start", left+516, b+26, "write with token 33:")
	d.text("badtext", "start", left+516, b+46, "refused")

	d.text("", "start", left+14, data+23, "fence: 33")
	d.line("line", left+360, data, left+360, data+36)
	d.text("", "start", left+372, data+23, "fence: 34, refuses every token below 34")
	d.text("quiet", "start", 24, 308, "The token rises with every exclusive holder.")
	d.text("quiet", "start", 24, 326,
		"The data keeps the highest token it has seen, and compares and writes in one step.")
	return d.end()
}
