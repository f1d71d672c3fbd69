package sqlite

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	mathrand "math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"
	"unicode"

	"github.com/holdfast-go/holdfast/store"
)

// A notifier sends grants to other processes. Each client that has claims has a datagram socket in a folder beside the
// file, its inbox. A datagram may be lost: a client that waits also polls.
//
// The socket also shows whether its client is alive: the kernel refuses to connect to a socket that no process has open
// any more. After a socket is bound, it is renamed to the name that the table has, which contains the number of its
// inode. So a socket that has this name and this number was open before the first claim was written, and a copy of it,
// as in a restored backup, is not taken for it.
type notifier struct {
	folder string
	shared bool // WithShared

	mu      sync.Mutex
	inbox   string // the name of the socket, once listen was called
	socket  *net.UnixConn
	closed  bool
	reading sync.WaitGroup
}

// longestAddress is the length of a socket's path that works on every system.
const longestAddress = 100

// sendTimeout bounds how long send waits for a process that does not read its inbox.
const sendTimeout = 5 * time.Millisecond

// listen creates the inbox, if it does not exist yet, and reports whether there is one. Its name does not change later.
func (b *notifier) listen(receive func(store.ID, store.Status)) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.inbox != "" || b.closed {
		return b.socket != nil
	}
	for range listenTries {
		socket, inbox, err := b.makeInbox()
		if err == nil {
			b.socket, b.inbox = socket, inbox
			b.reading.Go(func() { readDatagrams(socket, receive) })
			return true
		}
		if !errors.Is(err, fs.ErrNotExist) {
			break
		}
	}
	b.inbox = rand.Text() // there is no socket
	return false
}

// name returns the name of the inbox.
func (b *notifier) name() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.inbox
}

// listenTries bounds the attempts to create an inbox: a client that closes the last other one removes the folder.
const listenTries = 5

// makeInbox binds a socket and then renames it.
func (b *notifier) makeInbox() (socket *net.UnixConn, inbox string, err error) {
	if err := makeFolder(b.folder, b.shared); err != nil {
		return nil, "", err
	}
	bound := rand.Text()
	err = b.at(bound, func(a *net.UnixAddr) (err error) { socket, err = net.ListenUnixgram("unixgram", a); return err })
	if err != nil {
		return nil, "", err
	}
	info, err := os.Lstat(b.path(bound))
	if err == nil {
		inbox = bound + inodeMark + inode(info)
		err = b.at(inbox, func(*net.UnixAddr) error { return os.Rename(b.path(bound), b.path(inbox)) })
	}
	if err != nil {
		_ = socket.Close()
		_ = os.Remove(b.path(bound))
		return nil, "", err
	}
	if b.shared {
		share(b.path(inbox), strings.TrimSuffix(b.folder, "-wake"))
	}
	return socket, inbox, nil
}

// inodeMark separates the number of an inode from the rest of an inbox's name, which has no small letters. Names
// without it were made by earlier versions.
const inodeMark = "i"

// path returns the path of the inbox of this name.
func (b *notifier) path(inbox string) string { return filepath.Join(b.folder, inbox) }

// at calls do with the address of an inbox. Its name comes from the table: it must not lead out of the folder.
func (b *notifier) at(inbox string, do func(*net.UnixAddr) error) error {
	if inbox == "" ||
		strings.ContainsFunc(inbox, func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) }) {
		return fs.ErrInvalid
	}
	if !b.shared {
		if err := checkFolder(b.folder); err != nil {
			return err
		}
	}
	path := b.path(inbox)
	if len(path) > longestAddress {
		if runtime.GOOS != "linux" {
			return syscall.ENAMETOOLONG
		}
		folder, err := os.Open(b.folder)
		if err != nil {
			return err
		}
		defer func() { _ = folder.Close() }()
		path = fmt.Sprintf("/proc/self/fd/%d/%s", folder.Fd(), inbox)
	}
	return do(&net.UnixAddr{Name: path, Net: "unixgram"})
}

// The form of a datagram: version, state, id, ticket.
const (
	datagramVersion = 1
	datagramSize    = 1 + 1 + 16 + 8
)

func (m *message) datagram() []byte {
	datagram := append(make([]byte, 0, datagramSize), datagramVersion, byte(m.status.State))
	datagram = append(datagram, m.id[:]...)
	return binary.BigEndian.AppendUint64(datagram, m.status.Ticket)
}

// readDatagrams passes on what arrives until the socket is closed.
func readDatagrams(socket *net.UnixConn, receive func(store.ID, store.Status)) {
	datagram := make([]byte, 2*datagramSize)
	for {
		n, err := socket.Read(datagram)
		if err != nil {
			return
		}
		if n != datagramSize || datagram[0] != datagramVersion {
			continue // it may be of a later version
		}
		status := store.Status{State: store.State(datagram[1]), Ticket: binary.BigEndian.Uint64(datagram[18:])}
		if id := store.ID(datagram[2:18]); id != store.Everyone {
			receive(id, status)
		}
	}
}

// send sends a message to another process and reports whether it succeeded.
func (b *notifier) send(m message) bool {
	socket, _ := b.dial(m.inbox)
	if socket == nil {
		return false
	}
	defer func() { _ = socket.Close() }()
	_ = socket.SetWriteDeadline(time.Now().Add(sendTimeout))
	_, err := socket.Write(m.datagram())
	return err == nil
}

// dial connects to an inbox. refused is true if no process has the socket open any more.
func (b *notifier) dial(inbox string) (socket *net.UnixConn, refused bool) {
	err := b.at(inbox, func(a *net.UnixAddr) (err error) { socket, err = net.DialUnix("unixgram", nil, a); return err })
	if err != nil {
		return nil, errors.Is(err, syscall.ECONNREFUSED)
	}
	return socket, false
}

// dead reports whether the client of an inbox is known to be dead, or to have closed its store. Nothing is known of a
// client whose socket is missing, or is not its own: its claims stay until they expire.
func (b *notifier) dead(inbox string) bool {
	return b.isOwn(inbox) && b.refuses(inbox) && b.isOwn(inbox)
}

// isOwn reports whether the socket of this name is the one that was bound by its client.
func (b *notifier) isOwn(inbox string) bool {
	_, number, marked := strings.Cut(inbox, inodeMark)
	if !marked {
		return false
	}
	info, err := os.Lstat(b.path(inbox))
	return err == nil && info.Mode().Type() == fs.ModeSocket && inode(info) == number
}

func (b *notifier) refuses(inbox string) bool {
	socket, refused := b.dial(inbox)
	if socket != nil {
		_ = socket.Close()
	}
	return refused
}

// remove removes the sockets of dead clients that have no claims.
func (b *notifier) remove(inboxes []string) {
	for _, inbox := range inboxes {
		if b.refuses(inbox) {
			_ = os.Remove(b.path(inbox))
		}
	}
}

// mostDialled bounds how many sockets one sweep tests.
const mostDialled = 1000

// sweep returns the inboxes of dead clients, and removes sockets by which no claims can be found. Of a large folder it
// tests a part, chosen at random, so that all sockets get their turn.
func (b *notifier) sweep() (dead []string) {
	folder, err := os.Open(b.folder)
	if err != nil {
		return nil
	}
	names, _ := folder.Readdirnames(-1)
	_ = folder.Close()
	mathrand.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
	for _, name := range names[:min(len(names), mostDialled)] {
		switch own := b.isOwn(name); {
		case !b.refuses(name):
		case own && b.isOwn(name): // as in dead, with one call of connect
			dead = append(dead, name)
		default:
			_ = os.Remove(b.path(name))
		}
	}
	return dead
}

// close closes the socket. If the client has claims left, the socket's file stays, so that others recognise them as
// those of a dead client.
func (b *notifier) close(left func() bool) {
	b.mu.Lock()
	b.closed = true
	socket := b.socket
	b.socket = nil
	b.mu.Unlock()
	if socket != nil {
		if !left() {
			_ = os.Remove(b.path(b.inbox))
		}
		_ = socket.Close()
	}
	if b.shared || checkFolder(b.folder) == nil {
		_ = os.Remove(b.folder) // which fails if it has other sockets
	}
	b.reading.Wait()
}

// makeFolder creates the folder of the sockets.
func makeFolder(path string, shared bool) error {
	err := os.Mkdir(path, 0o700)
	if shared && err == nil {
		share(path, strings.TrimSuffix(path, "-wake"))
	}
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	return err
}
