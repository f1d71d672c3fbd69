package memstore

// A pool keeps a few things that are no longer needed for those that are needed next.
type pool[T any] []*T

// most is how many a pool keeps.
const most = 64

// get gives a zero value.
func (p *pool[T]) get() *T {
	last := len(*p) - 1
	if last < 0 {
		return new(T)
	}
	x := (*p)[last]
	*p = (*p)[:last]
	return x
}

// put takes back what nobody points to any more.
func (p *pool[T]) put(x *T) {
	if len(*p) < most {
		var zero T
		*x = zero
		*p = append(*p, x)
	}
}
