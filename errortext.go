package holdfast

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/holdfast-go/holdfast/store"
)

// prefix begins the text of every error.
const prefix = "holdfast: "

// mentioned is the lock and the store that the text of an error has named before it comes to the reason.
type mentioned struct{ name, store string }

// text returns the text without the prefix. It does not repeat what the error around it has named.
func (e *Error) text(said mentioned) string {
	var b strings.Builder
	if said == (mentioned{}) || said != (mentioned{e.Name, e.Store}) {
		b.WriteString(e.Op)
		if e.Name != "" {
			b.WriteString(" " + store.Quote(e.Name))
			said.name = e.Name
		}
		switch fault, ok := errors.AsType[*Fault](e.Err); {
		case e.Store == "" || e.Store == said.store:
		case e.Op != opOpen:
			b.WriteString(" on " + e.Store)
			said.store = e.Store
		default:
			b.WriteString(" " + e.Store)
			if ok { // the URL has identified the store
				said.store = fault.Store
			}
		}
		b.WriteString(": ")
	}
	b.WriteString(text(e.Err, said))
	return b.String()
}

// text returns the text of err in one line, without the prefix.
func text(err error, said mentioned) string {
	switch e := err.(type) { //nolint:errorlint // each level of the tree writes its own part
	case *Error:
		return e.text(said)
	case *LockedError:
		return e.text(said)
	case *Fault:
		if e.Store == said.store {
			return text(e.Err, said)
		}
		return e.Store + ": " + text(e.Err, mentioned{said.name, e.Store})
	case interface{ Unwrap() []error }:
		if parts, ok := joined(err, e.Unwrap()); ok {
			return chain(parts, said)
		}
	}
	return strings.ReplaceAll(strings.TrimPrefix(err.Error(), prefix), "\n", "; ")
}

// joined returns the parts of an error of errors.Join, which would write each in a line of its own.
func joined(err error, parts []error) ([]error, bool) {
	lines := make([]string, len(parts))
	for i, part := range parts {
		lines[i] = part.Error()
	}
	return parts, err.Error() == strings.Join(lines, "\n")
}

// chain returns the texts of an error and its causes one after the other, but none that is contained already.
func chain(errs []error, said mentioned) string {
	var all string
	for _, err := range errs {
		switch t := text(err, said); {
		case all == "":
			all = t
		case !strings.Contains(all, t):
			all += ": " + t
		}
	}
	return all
}

// A several is more than one independent error.
type several struct{ errs []error }

// Error returns them in one line. Of further locks that failed in the same operation it has only a few names.
func (s *several) Error() string {
	var said mentioned
	var b strings.Builder
	b.WriteString(prefix + text(s.errs[0], said))
	first, ok := s.errs[0].(*Error) //nolint:errorlint // only an error that is itself about a name can share its clause
	if ok {
		said.store = first.Store
	}
	var also []string
	for _, err := range s.errs[1:] {
		if e, same := err.(*Error); same && ok && e.Op == first.Op && e.Name != "" { //nolint:errorlint // likewise
			if e.Name != first.Name {
				also = append(also, store.Quote(e.Name))
			}
		} else if !isContextError(err) || !ok {
			b.WriteString("; " + text(err, said))
		}
	}
	if len(also) > 0 {
		b.WriteString("; also " + few(also))
	}
	return b.String()
}

// Unwrap returns all of them.
func (s *several) Unwrap() []error { return s.errs }

// isContextError reports whether err only means that a context has ended, which adds nothing to the reason.
func isContextError(err error) bool {
	return err == context.Canceled || err == context.DeadlineExceeded //nolint:errorlint // wrapped ones say more
}

// few returns a list of the first names.
func few(names []string) string {
	const most = 3
	if len(names) > most {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
	}
	return strings.Join(names, ", ")
}
