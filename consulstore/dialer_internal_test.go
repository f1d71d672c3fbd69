package consulstore

import "testing"

// An address is left. Its blocking queries are given up if there is another one. If there is none, they go on, and what
// is sent from then on gets new connections.
func TestDialerLeaves(t *testing.T) {
	t.Parallel()
	for _, addresses := range [][]string{{"one"}, {"one", "two"}} {
		d := newDialer("tcp", addresses, nil)
		at, left := d.here()
		host := d.host()
		d.next(at)
		if another := len(addresses) > 1; (left.Err() != nil) != another {
			t.Errorf("with %d addresses, queries are given up: %v", len(addresses), !another)
		}
		if d.host() == host {
			t.Errorf("with %d addresses, connections are used on", len(addresses))
		}
	}
}
