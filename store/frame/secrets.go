package frame

import (
	"errors"
	"slices"
	"strings"
	"sync"
)

// secrets are passwords that must not appear in errors: a server may repeat what it does not understand.
type secrets struct {
	mu     sync.Mutex
	sorted []string // longer ones first: one may be the beginning of another
	latest []string // those of HideLatest, the oldest first
}

// Hide masks a password in all errors and texts from now on.
func (f *Frame) Hide(secret string) {
	f.secrets.mu.Lock()
	defer f.secrets.mu.Unlock()
	f.secrets.hide(secret)
}

func (s *secrets) hide(secret string) {
	if secret != "" && !slices.Contains(s.sorted, secret) {
		s.sorted = append(s.sorted, secret)
		slices.SortStableFunc(s.sorted, func(a, b string) int { return len(b) - len(a) })
	}
}

// maxLatest is the number of passwords that HideLatest remembers. It is more than the number of logins of a store, each
// with its own password, that can be in progress at the same time.
const maxLatest = 256

// HideLatest is Hide for a password that will be replaced: it is remembered until maxLatest later ones were hidden.
func (f *Frame) HideLatest(secret string) {
	s := &f.secrets
	s.mu.Lock()
	defer s.mu.Unlock()
	s.latest = append(slices.DeleteFunc(s.latest, func(old string) bool { return old == secret }), secret)
	if len(s.latest) > maxLatest {
		s.sorted = slices.DeleteFunc(s.sorted, func(hidden string) bool { return hidden == s.latest[0] })
		s.latest = s.latest[1:]
	}
	s.hide(secret)
}

// Mask returns err if its text contains no hidden password. Otherwise it returns an error with the masked text.
func (f *Frame) Mask(err error) error {
	if text := f.MaskText(err.Error()); text != err.Error() {
		return errors.New(text)
	}
	return err
}

// MaskText returns text with all hidden passwords masked.
func (f *Frame) MaskText(text string) string {
	s := &f.secrets
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, secret := range s.sorted {
		text = strings.ReplaceAll(text, secret, "xxxxx")
	}
	return text
}
