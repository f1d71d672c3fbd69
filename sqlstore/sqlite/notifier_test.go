//go:build unix

package sqlite

import (
	"bytes"
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/store"
)

// inbox makes a socket, as another process would have it.
func inbox(t *testing.T, folder, name string) *net.UnixConn {
	t.Helper()
	check(t, os.MkdirAll(folder, 0o700))
	socket, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: filepath.Join(folder, name), Net: "unixgram"})
	check(t, err)
	t.Cleanup(func() { socket.Close() })
	return socket
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return !errors.Is(err, fs.ErrNotExist)
}

// paths are one that is short enough for a socket's address, and one that is not.
func paths(t *testing.T) map[string]string {
	t.Helper()
	dir := t.TempDir()
	long := filepath.Join(dir, strings.Repeat("long", 40))
	check(t, os.Mkdir(long, 0o700))
	p := map[string]string{"short": filepath.Join(dir, "locks.db")}
	if runtime.GOOS == "linux" { // elsewhere there is no way around it
		p["long"] = filepath.Join(long, "locks.db")
	}
	return p
}

// TestStoppedProcessHoldsUpNobody: one that does not empty its inbox is waited for once, and not for each of its
// claims. Others are told all the same.
func TestStoppedProcessHoldsUpNobody(t *testing.T) {
	path := newPath(t)
	e, awake := open(t, path), open(t, path)
	told := heard(t, awake)
	inbox(t, e.notifier.folder, "stopped")
	stopped := message{inbox: "stopped", id: store.ID{1}}
	for n := 0; e.notifier.send(stopped); n++ {
		if n == 100_000 {
			t.Fatal("its inbox is never full")
		}
	}
	const claims = 2000
	news := make([]message, claims, claims+1)
	for i := range news {
		news[i] = stopped
	}
	start := time.Now()
	e.deliver(append(news, message{inbox: awake.notifier.name(), id: store.ID{2}}))
	if took := time.Since(start); took > claims/2*sendTimeout {
		t.Errorf("it took %v", took)
	}
	wantPush(t, told, store.ID{2})
}

// TestSweepOfSockets: those of processes that died without a claim are removed, and those of the living stay.
func TestSweepOfSockets(t *testing.T) {
	path := newPath(t)
	e := open(t, path)
	living := inbox(t, e.notifier.folder, "living")
	dead := inbox(t, e.notifier.folder, "dead")
	dead.Close() // without removing its name, as kill -9 leaves it
	check(t, e.Sweep(t.Context()))
	if exists(dead.LocalAddr().String()) {
		t.Error("that of the dead is still there")
	}
	if !exists(living.LocalAddr().String()) {
		t.Error("that of the living is gone")
	}
}

// TestWakeFolderMadeAnew: an operator removes the folder. A client that rang there before finds the new one, however
// long its path is.
func TestWakeFolderMadeAnew(t *testing.T) {
	for _, path := range paths(t) {
		a := open(t, path)
		for range 2 {
			b := open(t, path)
			told := heard(t, b)
			holder, waiter := joined(t, a, "x", store.Held), joined(t, b, "x", store.Waiting)
			check(t, a.Leave(t.Context(), holder))
			wantPush(t, told, waiter.ID)
			check(t, b.Leave(t.Context(), waiter))
			check(t, b.Close())
			check(t, os.RemoveAll(path+"-wake"))
		}
	}
}

// TestCloseRemovesItsSocket and no other, and the folder only with the last one. Then it does not listen any more.
func TestCloseRemovesItsSocket(t *testing.T) {
	for what, path := range paths(t) {
		a, b := open(t, path), open(t, path)
		if !a.Listen() || !b.Listen() {
			t.Fatalf("%s: no sockets", what)
		}
		check := func(wantA, wantB bool) {
			t.Helper()
			gotA, gotB := exists(a.notifier.path(a.notifier.name())), exists(b.notifier.path(b.notifier.name()))
			if gotA != wantA || gotB != wantB {
				t.Errorf("%s: sockets of a %v, of b %v", what, gotA, gotB)
			}
		}
		check(true, true)
		a.Close()
		check(false, true)
		b.Close()
		if b.Listen() || exists(path+"-wake") {
			t.Errorf("%s: it still listens, or the folder is left", what)
		}
	}
}

// TestLetters that are not understood are passed over: those of a later version, and what is no letter.
func TestLetters(t *testing.T) {
	path := newPath(t)
	e := open(t, path)
	told := heard(t, e)
	socket, _ := e.notifier.dial(e.notifier.name())
	if socket == nil {
		t.Fatal("nobody is there")
	}
	defer socket.Close()
	understood := (&message{id: store.ID{9}}).datagram()
	for _, letter := range [][]byte{
		append([]byte{datagramVersion + 1}, understood[1:]...),
		understood[:datagramSize-1],
		append(bytes.Clone(understood), 0),
		{},
		(&message{id: store.Everyone}).datagram(),
		understood,
	} {
		_, err := socket.Write(letter)
		check(t, err)
	}
	wantPush(t, told, store.ID{9})
	e.Close() // and with it the goroutine that reads letters
	if n := len(told); n != 0 {
		t.Errorf("told %d times more", n)
	}
}

// TestDeadSocket: the socket of a process that died while it waited is removed when its place is.
func TestDeadSocket(t *testing.T) {
	path := newPath(t)
	e := open(t, path)
	dead := inbox(t, e.notifier.folder, "dead")
	dead.Close() // without removing its name, as kill -9 leaves it
	join(t, e, newClaim("x"), store.Held)
	join(t, e, newClaim("x"), store.Waiting)
	operate(t, path, "UPDATE holdfast_claims SET inbox = 'dead', deadline = 1 WHERE state = 'waiting'")
	check(t, e.Sweep(t.Context()))
	if exists(dead.LocalAddr().String()) {
		t.Error("it is still there")
	}
}
