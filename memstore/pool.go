package memstore

// A pool keeps a few unused values for reuse.
type pool[T any] []*T

// poolSize is how many values a pool keeps.
const poolSize = 64

// get returns a zero value.
func (p *pool[T]) get() *T {
	last := len(*p) - 1
	if last < 0 {
		return new(T)
	}
	x := (*p)[last]
	*p = (*p)[:last]
	return x
}

// put returns a value to the pool. Nothing may point to it any more.
func (p *pool[T]) put(x *T) {
	if len(*p) < poolSize {
		var zero T
		*x = zero
		*p = append(*p, x)
	}
}
