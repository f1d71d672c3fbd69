package webui_test

import (
	"context"
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/testkit"
	"github.com/holdfast-go/holdfast/memstore"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/webui"
)

// A scene is a store in memory, and the page that shows it.
type scene struct {
	t      testing.TB
	store  *memstore.Store
	client *holdfast.Client
	page   *webui.Handler
	server *httptest.Server
}

func newScene(t testing.TB, options ...webui.Option) *scene {
	t.Helper()
	s := &scene{t: t, store: memstore.New()}
	s.client = holdfast.New(s.store)
	t.Cleanup(func() { s.client.Close() })
	var err error
	s.page, err = webui.New(s.client, options...)
	testkit.Must(t, err)
	s.server = httptest.NewServer(s.page)
	t.Cleanup(s.server.Close)
	t.Cleanup(s.page.Close)
	return s
}

const long = time.Hour // a ttl that no test outlives

// held joins a claim that is held, of a holder with this label.
func (s *scene) held(name string, owner store.Owner) store.Claim {
	s.t.Helper()
	return testkit.Held(s.t, s.store, claimOf(name, owner))
}

func (s *scene) waiting(name string, owner store.Owner) store.Claim {
	s.t.Helper()
	return testkit.Waiting(s.t, s.store, claimOf(name, owner))
}

func claimOf(name string, owner store.Owner) store.Claim {
	c := testkit.Claim(name, long)
	c.Owner = &owner
	return c
}

// production fills the store as an operator may find it.
func (s *scene) production(ctx context.Context) {
	web := func(n int, label string) store.Owner {
		return store.Owner{Label: label, Host: fmt.Sprintf("web-%d", n), Address: fmt.Sprintf("10.4.0.%d", 10+n), PID: 4100 + 7*n}
	}
	job := func(label string, pid int) store.Owner { return store.Owner{Label: label, Host: "jobs-1", Address: "10.4.1.5", PID: pid} }
	with := func(o store.Owner, id string) store.Owner { o.ID = id; return o }
	short := func(name string, o store.Owner, ttl time.Duration, demand ...store.Demand) store.Claim {
		c := claimOf(name, o)
		c.TTL = ttl
		if len(demand) > 0 {
			c.Demand = demand[0]
		}
		return c
	}
	reader := store.Demand{Kind: store.Lock, Units: 1, Limit: store.MaxReaders}
	slots := func(n int32) store.Demand { return store.Demand{Kind: store.Semaphore, Units: n, Limit: 4} }
	var kept []store.Claim
	take := func(c store.Claim) store.Claim {
		status, err := s.store.Join(ctx, c)
		testkit.Must(s.t, err)
		c.Ticket = status.Ticket
		kept = append(kept, c)
		return c
	}
	take(short("billing/invoices", web(1, "invoice-run"), 30*time.Second))
	for i := range 4 {
		take(short("billing/invoices", web(2+i, "invoice-run"), 30*time.Second))
	}
	take(short("deploy/eu-west", job("deploy 2026.11", 311), 60*time.Second))
	take(short("deploy/eu-west", with(job("migrate-users", 415), "migrate-users"), 60*time.Second))
	take(short("schema/users", with(job("migrate-users", 415), "migrate-users"), 60*time.Second))
	take(short("schema/users", web(3, "signup-api"), 15*time.Second))
	take(short("schema/users", web(4, "signup-api"), 15*time.Second))
	for i := range 3 {
		take(short("catalog", web(1+i, "search-index"), 20*time.Second, reader))
	}
	take(short("catalog", job("catalog-import", 502), 20*time.Second))
	take(short("encoder", web(5, "encode 4k"), 30*time.Second, slots(2)))
	take(short("encoder", web(6, "encode hd"), 30*time.Second, slots(1)))
	take(short("account/alice", with(web(1, "transfer #881"), "transfer-881"), 30*time.Second))
	take(short("account/bob", with(web(2, "transfer #882"), "transfer-882"), 30*time.Second))
	take(short("account/bob", with(web(1, "transfer #881"), "transfer-881"), 30*time.Second))
	take(short("account/alice", with(web(2, "transfer #882"), "transfer-882"), 30*time.Second))
	for _, name := range []string{"cron/backup", "cron/report", "cron/rotate-keys", "mail/outbox", "leader/scheduler", "leader/gateway",
		"cache/warm", "tenant/acme/export", "tenant/globex/export", "tenant/initech/import"} {
		take(short(name, job(strings.TrimPrefix(strings.ReplaceAll(name, "/", "-"), "cron-"), 600+len(name)), 30*time.Second))
	}
	go func() {
		for ctx.Err() == nil {
			_, _ = s.store.Keep(ctx, kept)
			pause(ctx, 8*time.Second)
		}
	}()
}

// TestPictures takes the pictures of the documentation. It is for people who look at them.
func TestPictures(t *testing.T) {
	b := newChromium(t)
	s := newScene(t, webui.WithBreak(), webui.WithStoreURL("redis://locks.internal:6379"))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	s.production(ctx)
	p := b.newTab(t, 1360, 820)
	p.prefer("light")
	p.open(s.server.URL)
	p.await(`document.querySelector("#stat-deadlocks").innerText === "1"`)
	pause(t.Context(), 3*time.Second)
	p.shot("light")
	p.prefer("dark")
	p.shot("dark")
	p.prefer("light")
	p.run(`[...document.querySelectorAll(".row .name")].find((n) => n.innerText.endsWith("schema/users")).click()`)
	p.await(`document.querySelector(".tree .root")`)
	pause(t.Context(), 1*time.Second)
	p.shot("detail")
	p.run(`document.querySelector("#detail").scrollTop = 500`)
	p.shot("detail-2")
	p.prefer("dark")
	p.run(`document.querySelector("#deadlocks .link").click()`)
	p.await(`document.querySelector(".deadlock")`)
	pause(t.Context(), 500*time.Millisecond)
	p.shot("deadlock")
	p.run(`document.querySelector("#detail .danger").click()`)
	p.shot("break")
	p.press("Escape")
	p.run(`document.querySelector("#detail").scrollTop = 5000`)
	p.shot("timeline")
	p.press("Escape")
	p.resize(390, 844)
	p.prefer("light")
	pause(t.Context(), 500*time.Millisecond)
	p.shot("phone")
	p.run(`[...document.querySelectorAll(".row .name")].find((n) => n.innerText.endsWith("schema/users")).click()`)
	p.await(`document.querySelector(".tree .root")`)
	p.shot("phone-detail")
	if errs := p.errors(); len(errs) > 0 {
		t.Errorf("%q", errs)
	}
}
