package verify

import (
	"context"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/testkit"
	"github.com/holdfast-go/holdfast/memstore"
	"github.com/holdfast-go/holdfast/store"
)

// A slowReader is a store whose lines can be read a few times, and then only when it is too late.
type slowReader struct {
	store.Store
	reads int
}

func (s *slowReader) Queue(ctx context.Context, name string) (store.Queue, error) {
	if s.reads--; s.reads < 0 {
		<-ctx.Done()
		return store.Queue{}, ctx.Err()
	}
	return s.Store.Queue(ctx, name)
}

// What was left behind is found and taken out, also if the time is over while the lines are read once more.
func TestLeftBehindAtTheLastMoment(t *testing.T) {
	server := memstore.NewServer()
	slow := &slowReader{Store: server.Connect()}
	s := &stage{prefix: "p/", locks: holdfast.New(slow)}
	defer s.locks.Close()
	slow.reads = len(s.names())
	owner := holdfast.New(server.Connect(), holdfast.WithTTL(time.Minute))
	defer owner.Close()
	_, err := owner.Mutex(s.names()[0]).Lock(t.Context())
	testkit.Must(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	lines, err := s.leftBehind(ctx)
	if err != nil || len(lines) == 0 || len(lines[0].Entries) != 1 {
		t.Errorf("left behind: %v, %v", lines, err)
	}
	slow.reads = 1
	if line, err := s.locks.Inspect(t.Context(), s.names()[0]); err != nil || len(line.Entries) > 0 {
		t.Errorf("it is still there: %v, %v", line, err)
	}
}
