package testkit

import (
	"testing"

	"github.com/holdfast-go/holdfast/lab/proxy"
	"github.com/holdfast-go/holdfast/store/storetest"
)

// Proxy starts a proxy to a TCP address. It ends with the test.
func Proxy(t testing.TB, address string, options ...proxy.Option) *proxy.Proxy {
	t.Helper()
	p, err := proxy.Start("tcp", address, options...)
	Must(t, err)
	t.Cleanup(func() { p.Close() })
	return p
}

// Ways are one client's connections to several servers, with a proxy in each.
type Ways struct {
	Proxies []*proxy.Proxy // in the order of the servers
	detours map[string]string
}

// NewWays starts a proxy to each address.
func NewWays(t testing.TB, addresses []string, options ...proxy.Option) Ways {
	t.Helper()
	w := Ways{detours: map[string]string{}}
	for _, address := range addresses {
		p := Proxy(t, address, options...)
		w.Proxies = append(w.Proxies, p)
		w.detours[address] = p.Addr()
	}
	return w
}

// Addrs returns the addresses of the proxies.
func (w Ways) Addrs() []string { return mapped(w.Proxies, (*proxy.Proxy).Addr) }

// Detour returns the address of the proxy for an address, or the address itself if there is none.
func (w Ways) Detour(address string) string {
	if detour := w.detours[address]; detour != "" {
		return detour
	}
	return address
}

// Links returns the proxies as the link of a store with several servers.
func (w Ways) Links() Links {
	return mapped(w.Proxies, func(p *proxy.Proxy) storetest.Link { return p.Link() })
}

// Each calls do for all proxies and returns a function that undoes it.
func (w Ways) Each(do func(*proxy.Proxy) (undo func())) (undo func()) { return each(w.Proxies, do) }

// Hold delays bytes of these flows until release is called.
func (w Ways) Hold(flows proxy.Flow) (release func()) {
	return w.Each(func(p *proxy.Proxy) func() { return p.Hold(flows) })
}

// Silence drops bytes of these flows.
func (w Ways) Silence(flows proxy.Flow) (end func()) {
	return w.Each(func(p *proxy.Proxy) func() { return p.Silence(flows) })
}

// Cut breaks all connections, and new ones.
func (w Ways) Cut() (mend func()) { return w.Each((*proxy.Proxy).Cut) }

// Held returns how many bytes of these flows are held back.
func (w Ways) Held(flows proxy.Flow) (total int) {
	for _, p := range w.Proxies {
		total += p.Held(flows)
	}
	return total
}

// Connections returns how many connections there are.
func (w Ways) Connections() (total int) {
	for _, p := range w.Proxies {
		total += p.Connections()
	}
	return total
}

// Heal ends all faults.
func (w Ways) Heal() {
	for _, p := range w.Proxies {
		p.Heal()
	}
}

// each calls a function for all of these and returns a function that undoes it.
func each[T any](all []T, do func(T) (undo func())) (undo func()) {
	undos := mapped(all, do)
	return func() {
		for _, undo := range undos {
			undo()
		}
	}
}

// mapped returns what f returns for each of these, in their order.
func mapped[T, R any](all []T, f func(T) R) []R {
	results := make([]R, len(all))
	for i, one := range all {
		results[i] = f(one)
	}
	return results
}

// Links are one client's links to all servers of a store. Together they are a storetest.Link.
type Links []storetest.Link

func (l Links) all(do func(storetest.Link)) {
	for _, link := range l {
		do(link)
	}
}

// HoldRequests implements storetest.Link.
func (l Links) HoldRequests() (release func()) { return each(l, storetest.Link.HoldRequests) }

// HoldReplies implements storetest.Link.
func (l Links) HoldReplies() (release func()) { return each(l, storetest.Link.HoldReplies) }

// HoldPushes implements storetest.Link.
func (l Links) HoldPushes() (release func()) { return each(l, storetest.Link.HoldPushes) }

// DropPushes implements storetest.Link.
func (l Links) DropPushes(on bool) { l.all(func(link storetest.Link) { link.DropPushes(on) }) }

// Cut implements storetest.Link.
func (l Links) Cut() { l.all(storetest.Link.Cut) }

// Heal implements storetest.Link.
func (l Links) Heal() { l.all(storetest.Link.Heal) }

// Kill implements storetest.Link.
func (l Links) Kill() { l.all(storetest.Link.Kill) }
