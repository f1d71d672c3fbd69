package redisstore

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/holdfast-go/holdfast/internal/rediswire"
	"github.com/holdfast-go/holdfast/store"
)

// OpenPath opens a store at a URL whose connections are made by dial.
func OpenPath(ctx context.Context, at store.Location,
	dial func(ctx context.Context, address string) (net.Conn, error)) (*Store, error) {
	options, set, err := parse(at)
	if err != nil {
		return nil, err
	}
	set.way.Path = dial
	return newBase(displayName(at.Scheme, options), set).openAt(ctx, options, nil)
}

// Who waits for a connection waits no longer when its reconnector is closed, though the attempt goes on.
func TestClosedWhileDialling(t *testing.T) {
	t.Parallel()
	dialling, release := make(chan struct{}), make(chan struct{})
	p := reconnector{Connect: func() (*connection, error) {
		close(dialling)
		<-release
		return nil, errors.New("too late")
	}}
	got := make(chan error, 2)
	for range cap(got) {
		go func() {
			_, err := p.Get(context.Background())
			got <- err
		}()
	}
	<-dialling
	p.Close()
	for range cap(got) {
		select {
		case err := <-got:
			if !errors.Is(err, rediswire.ErrNotInUse) {
				t.Errorf("%v, want %v", err, rediswire.ErrNotInUse)
			}
		case <-time.After(30 * time.Second):
			t.Error("it waits for a connection that nobody will use")
		}
	}
	close(release)
	p.Tasks.Wait()
	if _, err := p.Get(context.Background()); !errors.Is(err, rediswire.ErrNotInUse) {
		t.Errorf("later: %v, want %v", err, rediswire.ErrNotInUse)
	}
}

// A node whose host has vanished is closed at once, also while it is being connected to and the store lives on.
func TestCloseVanishedNode(t *testing.T) {
	t.Parallel()
	dialling := make(chan struct{})
	s := newBase("nowhere", settings{way: rediswire.Way{Path: func(ctx context.Context, _ string) (net.Conn, error) {
		close(dialling)
		<-ctx.Done()
		return nil, ctx.Err()
	}}})
	defer s.frame.End()
	client, err := rediswire.NewClient(s.frame.Life(), rediswire.DialTimeout,
		rueidis.ClientOption{InitAddress: []string{"dark:6379"}}, s.way.Dial)
	if err != nil {
		t.Fatal(err)
	}
	n := s.newNode("dark:6379", client, true)
	got := make(chan error, 1)
	go func() {
		_, err := n.commands.Get(context.Background())
		got <- err
	}()
	<-dialling
	began := time.Now()
	n.close()
	if took := time.Since(began); took > rediswire.DialTimeout/2 {
		t.Errorf("closing took %v", took)
	}
	if err := <-got; !errors.Is(err, rediswire.ErrNotInUse) {
		t.Errorf("who waited: %v, want %v", err, rediswire.ErrNotInUse)
	}
}

// What sentinels say is believed by epoch, then by number.
func TestLatestOfSentinels(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		said []masterReport
		want string
	}{
		{[]masterReport{says(1, "a")}, "a"},
		{[]masterReport{says(1, "a"), says(2, "b"), says(1, "a")}, "b"},
		{[]masterReport{says(2, "b"), says(1, "a"), says(1, "a")}, "b"},
		{[]masterReport{says(0, "a"), says(0, "b"), says(0, "b")}, "b"},
		{[]masterReport{says(0, "a"), says(0, "b")}, "a"},
	} {
		if got := latestReport(test.said).address; got != test.want {
			t.Errorf("of %v it is %s, want %s", test.said, got, test.want)
		}
	}
}

func says(epoch int64, address string) masterReport {
	return masterReport{sentinel: "s", knownMaster: knownMaster{address: address, epoch: epoch}}
}

// Fewer than most of the sentinels cannot take back what was known, nor can an answer to an earlier question.
func TestSentinelsAreBelieved(t *testing.T) {
	t.Parallel()
	s := newBase("nowhere", settings{}).newSentinels(rueidis.ClientOption{InitAddress: []string{"1", "2", "3"}})
	defer s.store.frame.End()
	for _, test := range []struct {
		what     string
		question int
		said     []masterReport
		want     string // "": an error
		left     bool   // whether connections to the master before are left
	}{
		{"the first", 1, []masterReport{says(4, "a")}, "a", false},
		{"a failover", 2, []masterReport{says(4, "a"), says(5, "b")}, "b", true},
		{"an earlier question", 1, []masterReport{says(4, "a"), says(4, "a"), says(4, "a")}, "b", false},
		{"one that is behind", 3, []masterReport{says(4, "a")}, "", false},
		{"the same again", 4, []masterReport{says(5, "b")}, "b", false},
		{"a failover that only who was asked earlier has heard of", 3, []masterReport{says(6, "d")}, "d", true},
		{"an earlier question again", 3, []masterReport{says(6, "b")}, "d", false},
		{"most, set up anew", 5, []masterReport{says(0, "c"), says(0, "c")}, "c", true},
		{"nobody", 6, nil, "", false},
	} {
		left := false
		if s.known.address != "" {
			s.tracked[&masterConn{leave: func() { left = true }}] = s.known.address
		}
		got, err := s.believe(test.question, test.said, newUnlocated("nobody says", "sentinel ", explain))
		if got != test.want || (err != nil) != (test.want == "") {
			t.Errorf("%s: %q and %v, want %q", test.what, got, err, test.want)
		}
		if left != test.left {
			t.Errorf("%s: connections to the master before are left: %t", test.what, left)
		}
	}
	_, err := s.believe(7, []masterReport{says(-1, "a")}, newUnlocated("nobody says", "sentinel ", explain))
	if why, final := explain(err); final || !strings.Contains(why.Error(), "sentinel s: "+errBehind.Error()) {
		t.Errorf("%v, which is final: %t", why, final)
	}
}

// A password that is the beginning of another leaves nothing of that in an error.
func TestPasswordsThatBeginAlike(t *testing.T) {
	s := newBase("redis", settings{})
	defer s.Close()
	for n := range 20 { // in whatever order they come
		s.frame.Hide("alike" + strings.Repeat("y", n))
	}
	if err := s.frame.Fault(t.Context(), errors.New("no command alikeyyy, alikeyyyyyyyyy")); strings.Contains(
		err.Error(), "y") {
		t.Error(err)
	}
}

// Nobody is led to a server that was replaced while he asked.
func TestReplacedMasterIsNotUsed(t *testing.T) {
	s := newBase("nowhere", settings{}).newSentinels(rueidis.ClientOption{InitAddress: []string{"1"}})
	defer s.store.frame.End()
	for question, address := range []string{"a", "b"} {
		if _, err := s.believe(question+1, []masterReport{says(int64(question), address)}, newUnlocated("nobody says",
			"sentinel ", explain)); err != nil {
			t.Fatal(err)
		}
	}
	if s.track(&masterConn{}, "a") || len(s.tracked) > 0 {
		t.Error("it leads to a, and b is the master")
	}
	if !s.track(&masterConn{}, "b") || len(s.tracked) != 1 {
		t.Error("it does not lead to the master")
	}
}
