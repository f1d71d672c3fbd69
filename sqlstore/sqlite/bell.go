package sqlite

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
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

// A bell tells other processes of their grants: each client that waits has a datagram socket in a folder beside the
// file. A datagram is only ever a hint that saves time. It can be lost, since a client that waits also looks.
type bell struct {
	folder string

	mu      sync.Mutex
	dir     *os.File // the folder, kept open where its path is too long for a socket's address
	socket  *net.UnixConn
	failed  bool // no socket can be had
	closed  bool
	reading sync.WaitGroup
}

// longestAddress is what a socket's path may have on every system.
const longestAddress = 100

// ringTimeout bounds how long a ring waits for a process that does not empty its inbox.
const ringTimeout = 5 * time.Millisecond

// listen makes the inbox, if it is not there yet, and says whether there is one.
func (b *bell) listen(inbox string, hear func(store.ID, store.Standing)) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.socket != nil || b.failed || b.closed {
		return b.socket != nil
	}
	for range listenTries {
		socket, err := b.makeInbox(inbox)
		if err == nil {
			b.socket = socket
			b.reading.Go(func() { readLetters(socket, hear) })
			return true
		}
		if !errors.Is(err, fs.ErrNotExist) {
			break
		}
	}
	b.failed = true
	return false
}

// listenTries is how often an inbox is tried to be made: whoever closes the last other one removes the folder.
const listenTries = 5

func (b *bell) makeInbox(inbox string) (*net.UnixConn, error) {
	if err := os.Mkdir(b.folder, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	address, err := b.address(inbox)
	if err != nil {
		return nil, err
	}
	return net.ListenUnixgram("unixgram", address)
}

// address is where an inbox is. Its name comes from the table: it must not lead out of the folder.
func (b *bell) address(inbox string) (*net.UnixAddr, error) {
	if inbox == "" || strings.ContainsFunc(inbox, func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) }) {
		return nil, fs.ErrInvalid
	}
	path := filepath.Join(b.folder, inbox)
	if len(path) <= longestAddress {
		return &net.UnixAddr{Name: path, Net: "unixgram"}, nil
	}
	if runtime.GOOS != "linux" || b.closed {
		return nil, syscall.ENAMETOOLONG
	}
	if b.dir != nil {
		if now, err := os.Stat(b.folder); err != nil || !sameFolder(b.dir, now) {
			_ = b.dir.Close()
			b.dir = nil
		}
	}
	if b.dir == nil {
		dir, err := os.Open(b.folder)
		if err != nil {
			return nil, err
		}
		b.dir = dir
	}
	return &net.UnixAddr{Name: fmt.Sprintf("/proc/self/fd/%d/%s", b.dir.Fd(), inbox), Net: "unixgram"}, nil
}

// sameFolder says whether dir is still the folder of its path: an empty one is removed, and made again.
func sameFolder(dir *os.File, now fs.FileInfo) bool {
	then, err := dir.Stat()
	return err == nil && os.SameFile(then, now)
}

// The form of a datagram: version, state, id, ticket.
const (
	letterVersion = 1
	letterSize    = 1 + 1 + 16 + 8
)

func (m *message) letter() []byte {
	letter := append(make([]byte, 0, letterSize), letterVersion, byte(m.standing.State))
	letter = append(letter, m.id[:]...)
	return binary.BigEndian.AppendUint64(letter, m.standing.Ticket)
}

// readLetters passes on what comes in until the socket is closed.
func readLetters(socket *net.UnixConn, hear func(store.ID, store.Standing)) {
	letter := make([]byte, 2*letterSize)
	for {
		n, err := socket.Read(letter)
		if err != nil {
			return
		}
		if n != letterSize || letter[0] != letterVersion {
			continue // a later version may have more to say
		}
		standing := store.Standing{State: store.State(letter[1]), Ticket: binary.BigEndian.Uint64(letter[18:])}
		if id := store.ID(letter[2:18]); id != store.Everyone {
			hear(id, standing)
		}
	}
}

// ring tells another process, and says whether it could.
func (b *bell) ring(m message) bool {
	socket := b.dial(m.inbox)
	if socket == nil {
		return false
	}
	defer func() { _ = socket.Close() }()
	_ = socket.SetWriteDeadline(time.Now().Add(ringTimeout))
	_, err := socket.Write(m.letter())
	return err == nil
}

// dial connects to an inbox. If its process is dead, its socket is removed.
func (b *bell) dial(inbox string) *net.UnixConn {
	b.mu.Lock()
	address, err := b.address(inbox)
	b.mu.Unlock()
	if err != nil {
		return nil
	}
	socket, err := net.DialUnix("unixgram", nil, address)
	if err != nil {
		if errors.Is(err, syscall.ECONNREFUSED) {
			_ = os.Remove(address.Name)
		}
		return nil
	}
	return socket
}

// mostDialled bounds how many sockets one sweep looks at.
const mostDialled = 100

// sweep removes the sockets of dead processes that had no claim, which nobody would ever write to.
func (b *bell) sweep() {
	folder, err := os.Open(b.folder)
	if err != nil {
		return
	}
	names, _ := folder.Readdirnames(mostDialled)
	_ = folder.Close()
	for _, name := range names {
		if socket := b.dial(name); socket != nil {
			_ = socket.Close()
		}
	}
}

func (b *bell) close() {
	b.mu.Lock()
	b.closed = true
	socket, dir := b.socket, b.dir
	b.socket = nil
	b.mu.Unlock()
	if socket != nil {
		name := socket.LocalAddr().String()
		_ = socket.Close()
		_ = os.Remove(name)
		_ = os.Remove(b.folder) // if nobody else has one in it
	}
	if dir != nil {
		_ = dir.Close()
	}
	b.reading.Wait()
}

func openFolder(path string) (*os.File, error) {
	if err := os.Mkdir(path, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	return os.Open(path)
}
