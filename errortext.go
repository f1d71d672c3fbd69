package holdfast

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/holdfast-go/holdfast/store"
)

// prefix is what the text of every error begins with.
const prefix = "holdfast: "

// mentioned is what the text of an error has named when it comes to the reason.
type mentioned struct{ name, store string }

// text is the error without the prefix. What the error around it has named is not named again.
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
			if ok { // the URL has said which store that is
				said.store = fault.Store
			}
		}
		b.WriteString(": ")
	}
	b.WriteString(text(e.Err, said))
	return b.String()
}

// text is what err says, in one line and without the prefix.
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

// joined returns the parts of an error of errors.Join, which would write one in a line each.
func joined(err error, parts []error) ([]error, bool) {
	lines := make([]string, len(parts))
	for i, part := range parts {
		lines[i] = part.Error()
	}
	return parts, err.Error() == strings.Join(lines, "\n")
}

// chain writes an error and its causes one after the other, but none whose text stands there already.
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

// A several is more than one error, each of its own.
type several struct{ errs []error }

// Error writes them in one line. Of further locks that failed in the same operation it has only the names, and not
// too many.
func (s *several) Error() string {
	var said mentioned
	var b strings.Builder
	b.WriteString(prefix + text(s.errs[0], said))
	first, ok := s.errs[0].(*Error) //nolint:errorlint // only what is itself about a name can share its clause
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

// Unwrap gives all of them.
func (s *several) Unwrap() []error { return s.errs }

// isContextError reports whether err only says that a context is over, which says nothing beside the reason.
func isContextError(err error) bool {
	return err == context.Canceled || err == context.DeadlineExceeded //nolint:errorlint // one that says more is written
}

// few lists the first of many names.
func few(names []string) string {
	const most = 3
	if len(names) > most {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
	}
	return strings.Join(names, ", ")
}
