package sqlstore

import (
	"context"

	"github.com/holdfast-go/holdfast/store"
)

// Examine implements store.Examiner, for engines that do.
func (s *Store) Examine(ctx context.Context) []store.Finding {
	if e, ok := s.engine.(store.Examiner); ok {
		return e.Examine(ctx)
	}
	return nil
}
