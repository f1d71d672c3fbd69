package memstore

// deadlines is a heap of places, the one that runs out first on top. Each place knows its index, so that it can
// leave or move without a search.
type deadlines []*place

func (d deadlines) Len() int           { return len(d) }
func (d deadlines) Less(i, j int) bool { return d[i].deadline.Before(d[j].deadline) }

func (d deadlines) Swap(i, j int) {
	d[i], d[j] = d[j], d[i]
	d[i].pos, d[j].pos = i, j
}

// Push is called by package heap only.
func (d *deadlines) Push(x any) {
	p := x.(*place)
	p.pos = len(*d)
	*d = append(*d, p)
}

// Pop is called by package heap only.
func (d *deadlines) Pop() any {
	last := len(*d) - 1
	p := (*d)[last]
	(*d)[last] = nil
	*d = (*d)[:last]
	return p
}
