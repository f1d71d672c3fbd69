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

// A bell tells other processes of their grants: each client that has claims has a datagram socket in a folder beside
// the file, its inbox. A datagram is only ever a hint that saves time. It can be lost, since a client that waits also
// looks.
//
// The socket also tells whether its client lives: the kernel refuses to connect to a socket that no process has open
// any more. A socket is renamed to the name in the table when it is bound, and the name has the number of its inode.
// So what is found under that name, and has that number, was open before the first claim was written; and a copy of
// it, as a restored backup would have it, is not taken for it.
type notifier struct {
	folder string
	shared bool // with other users

	mu      sync.Mutex
	inbox   string // the name of the socket, once it was asked for
	socket  *net.UnixConn
	closed  bool
	reading sync.WaitGroup
}

// longestAddress is what a socket's path may have on every system.
const longestAddress = 100

// ringTimeout bounds how long a ring waits for a process that does not empty its inbox.
const sendTimeout = 5 * time.Millisecond

// listen makes the inbox, if it is not there yet, and says whether there is one. Its name does not change any more.
func (b *notifier) listen(hear func(store.ID, store.Status)) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.inbox != "" || b.closed {
		return b.socket != nil
	}
	for range listenTries {
		socket, inbox, err := b.makeInbox()
		if err == nil {
			b.socket, b.inbox = socket, inbox
			b.reading.Go(func() { readDatagrams(socket, hear) })
			return true
		}
		if !errors.Is(err, fs.ErrNotExist) {
			break
		}
	}
	b.inbox = rand.Text() // no socket can be had
	return false
}

// name is the name of the inbox.
func (b *notifier) name() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.inbox
}

// listenTries is how often an inbox is tried to be made: whoever closes the last other one removes the folder.
const listenTries = 5

// makeInbox binds a socket, and then gives it its name.
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

// path is where the inbox of this name is.
func (b *notifier) path(inbox string) string { return filepath.Join(b.folder, inbox) }

// at calls do with the address of an inbox. Its name comes from the table: it must not lead out of the folder.
func (b *notifier) at(inbox string, do func(*net.UnixAddr) error) error {
	if inbox == "" || strings.ContainsFunc(inbox, func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) }) {
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
	letter := append(make([]byte, 0, datagramSize), datagramVersion, byte(m.status.State))
	letter = append(letter, m.id[:]...)
	return binary.BigEndian.AppendUint64(letter, m.status.Ticket)
}

// readLetters passes on what comes in until the socket is closed.
func readDatagrams(socket *net.UnixConn, hear func(store.ID, store.Status)) {
	letter := make([]byte, 2*datagramSize)
	for {
		n, err := socket.Read(letter)
		if err != nil {
			return
		}
		if n != datagramSize || letter[0] != datagramVersion {
			continue // a later version may have more to say
		}
		standing := store.Status{State: store.State(letter[1]), Ticket: binary.BigEndian.Uint64(letter[18:])}
		if id := store.ID(letter[2:18]); id != store.Everyone {
			hear(id, standing)
		}
	}
}

// ring tells another process, and says whether it could.
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

// dial connects to an inbox. It is refused if nobody has it open any more.
func (b *notifier) dial(inbox string) (socket *net.UnixConn, refused bool) {
	err := b.at(inbox, func(a *net.UnixAddr) (err error) { socket, err = net.DialUnix("unixgram", nil, a); return err })
	if err != nil {
		return nil, errors.Is(err, syscall.ECONNREFUSED)
	}
	return socket, false
}

// dead reports whether the client of an inbox is known to be dead, or to have closed its store. Of a client whose
// socket is missing, or is not its own, nothing is known: its claims stand until their ttl has passed.
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

// mostDialled bounds how many sockets one sweep looks at.
const mostDialled = 1000

// sweep returns the inboxes of dead clients, and removes the sockets of those that cannot have left claims to be
// found by. A large folder is looked at in parts, which are chosen at random so that all have their turn.
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

// close closes the socket. If the client has claims left, its name stays for others to find them by.
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
		_ = os.Remove(b.folder) // if nobody else has a socket in it
	}
	b.reading.Wait()
}

// makeFolder makes the folder of the sockets.
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
