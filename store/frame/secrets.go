package frame

import (
	"errors"
	"slices"
	"strings"
	"sync"
)

// secrets are passwords, which must not appear in an error: a server repeats what it does not understand.
type secrets struct {
	mu     sync.Mutex
	sorted []string // longer ones first: one may be the beginning of another
}

// Hide keeps a password out of messages from now on.
func (f *Frame) Hide(secret string) {
	s := &f.secrets
	s.mu.Lock()
	defer s.mu.Unlock()
	if secret != "" && !slices.Contains(s.sorted, secret) {
		s.sorted = append(s.sorted, secret)
		slices.SortStableFunc(s.sorted, func(a, b string) int { return len(b) - len(a) })
	}
}

// Unhide forgets a password that is no longer in use.
func (f *Frame) Unhide(secret string) {
	s := &f.secrets
	s.mu.Lock()
	defer s.mu.Unlock()
	if i := slices.Index(s.sorted, secret); i >= 0 {
		s.sorted = slices.Delete(s.sorted, i, i+1)
	}
}

// Mask returns err, or an error with its text if that has a password in it, which is then masked.
func (f *Frame) Mask(err error) error {
	if text := f.MaskText(err.Error()); text != err.Error() {
		return errors.New(text)
	}
	return err
}

// MaskText returns text with passwords masked.
func (f *Frame) MaskText(text string) string {
	s := &f.secrets
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, secret := range s.sorted {
		text = strings.ReplaceAll(text, secret, "xxxxx")
	}
	return text
}
