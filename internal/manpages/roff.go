package manpages

import (
	"fmt"
	"strings"
)

// A roff is a page that is being written.
type roff struct{ b strings.Builder }

// macro writes a line that calls a macro. Arguments that are empty, or have spaces, are quoted.
func (r *roff) macro(name string, args ...string) {
	r.b.WriteString("." + name)
	for _, arg := range args {
		arg = escape(arg)
		if arg == "" || strings.Contains(arg, " ") {
			arg = `"` + arg + `"`
		}
		r.b.WriteString(" " + arg)
	}
	r.b.WriteString("\n")
}

// line writes a line that is roff already.
func (r *roff) line(text string) { r.b.WriteString(text + "\n") }

// text writes plain text. Lines that begin with a space are shown as they are, and all others are filled. An empty line
// ends a paragraph.
func (r *roff) text(text string) {
	verbatim, first := false, true
	end := func() {
		if verbatim {
			r.macro("fi")
			r.macro("RE")
			verbatim = false
		}
	}
	gap := false
	for line := range strings.Lines(strings.Trim(text, "\n")) {
		line = strings.TrimRight(line, " \n")
		indented := strings.HasPrefix(line, " ")
		switch {
		case line == "":
			gap = true
			continue
		case indented && verbatim && gap:
			r.line("")
		case indented && !verbatim:
			end()
			if !first {
				r.macro("PP")
			}
			r.macro("RS", "4")
			r.macro("nf")
			verbatim = true
		case !indented && (verbatim || gap):
			end()
			r.macro("PP")
		}
		gap, first = false, false
		if indented {
			line = strings.TrimPrefix(line, "  ")
		}
		r.line(guard(escape(line)))
	}
	end()
}

// special are the characters that roff would interpret, or would replace by a typographic one. A command line must be
// the same after it was copied from a page.
var special = strings.NewReplacer(
	`\`, `\(rs`, `-`, `\-`, `'`, `\(aq`, "`", `\(ga`, `"`, `\(dq`, `^`, `\(ha`, `~`, `\(ti`,
)

// escape returns plain text as roff, for the inside of a line.
func escape(text string) string {
	var b strings.Builder
	for _, c := range special.Replace(text) {
		if c < 0x80 {
			b.WriteRune(c)
		} else {
			fmt.Fprintf(&b, `\[u%04X]`, c)
		}
	}
	return b.String()
}

// guard returns a line of roff that is not taken for a macro.
func guard(line string) string {
	if strings.HasPrefix(line, ".") {
		return `\&` + line
	}
	return line
}

// bold returns plain text in bold.
func bold(text string) string { return `\fB` + escape(text) + `\fR` }
