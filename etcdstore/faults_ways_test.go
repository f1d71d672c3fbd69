package etcdstore_test

import (
	"testing"

	"github.com/holdfast-go/holdfast/lab/proxy"
)

// ways are one client's ways to all servers.
type ways []*proxy.Proxy

func newWays(t testing.TB, endpoints []string) (w ways) {
	t.Helper()
	for _, endpoint := range endpoints {
		p, err := proxy.Start("tcp", endpoint)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { p.Close() })
		w = append(w, p)
	}
	return w
}

func (w ways) addrs() []string {
	addrs := make([]string, len(w))
	for i, p := range w {
		addrs[i] = p.Addr()
	}
	return addrs
}

// each does something to all ways. Undo undoes it.
func (w ways) each(do func(*proxy.Proxy) (undo func())) (undo func()) {
	undos := make([]func(), len(w))
	for i, p := range w {
		undos[i] = do(p)
	}
	return func() {
		for _, undo := range undos {
			undo()
		}
	}
}

func (w ways) hold(flows proxy.Flow) (release func()) {
	return w.each(func(p *proxy.Proxy) func() { return p.Hold(flows) })
}

func (w ways) silence(flows proxy.Flow) (end func()) {
	return w.each(func(p *proxy.Proxy) func() { return p.Silence(flows) })
}

// held is how many bytes are held back.
func (w ways) held(flows proxy.Flow) (total int) {
	for _, p := range w {
		total += p.Held(flows)
	}
	return total
}

func (w ways) cut() (mend func()) { return w.each((*proxy.Proxy).Cut) }

// heal ends everything that was begun.
func (w ways) heal() {
	for _, p := range w {
		p.Heal()
	}
}
