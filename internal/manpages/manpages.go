// Package manpages writes man pages of a tree of cobra commands: one page for each command and each help topic.
//
// It is not github.com/spf13/cobra/doc, which converts Markdown with go-md2man. The help of holdfast is plain text,
// with tables and command lines in which Markdown would see emphasis, headings and HTML, and which it would reflow.
// Here the help becomes roff directly: what is indented in the help is shown unchanged, and all else is filled. It
// needs no module other than cobra.
package manpages

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// A Header is what all pages have in common.
type Header struct {
	Manual  string    // the title of the manual
	Version string    // of the program; may be empty
	Date    time.Time // of the last change; the zero Time is left out
	URL     string    // where to read more; may be empty
}

// A Page is a man page.
type Page struct {
	Name    string // such as holdfast-run
	Section int    // 1 for commands, 7 for help topics
	Text    string // in roff, with the macros of man(7)
}

// File returns the name of the page's file.
func (p Page) File() string { return fmt.Sprintf("%s.%d", p.Name, p.Section) }

// Pages returns the pages of root and of all its commands that are not hidden, sorted by name.
func Pages(root *cobra.Command, h Header) []Page {
	var all []Page
	var visit func(cmd *cobra.Command)
	visit = func(cmd *cobra.Command) {
		all = append(all, newPage(cmd, h))
		for _, sub := range shown(cmd) {
			visit(sub)
		}
	}
	visit(root)
	slices.SortFunc(all, func(a, b Page) int { return strings.Compare(a.Name, b.Name) })
	return all
}

// shown returns the commands and help topics of cmd that are not hidden.
func shown(cmd *cobra.Command) []*cobra.Command {
	return slices.DeleteFunc(slices.Clone(cmd.Commands()), func(sub *cobra.Command) bool {
		return sub.Hidden || sub.Deprecated != "" || sub.Name() == "help"
	})
}

// nameOf returns the name of the page of a command.
func nameOf(cmd *cobra.Command) string { return strings.ReplaceAll(cmd.CommandPath(), " ", "-") }

// sectionOf returns the section of the manual that a command belongs to.
func sectionOf(cmd *cobra.Command) int {
	if cmd.IsAdditionalHelpTopicCommand() {
		return 7
	}
	return 1
}

// newPage returns the page of one command.
func newPage(cmd *cobra.Command, h Header) Page {
	cmd.InitDefaultHelpFlag()
	p := Page{Name: nameOf(cmd), Section: sectionOf(cmd)}
	var r roff
	date := ""
	if !h.Date.IsZero() {
		date = h.Date.UTC().Format(time.DateOnly)
	}
	source := strings.TrimSpace(cmd.Root().Name() + " " + h.Version)
	r.macro("TH", strings.ToUpper(p.Name), strconv.Itoa(p.Section), date, source, h.Manual)
	r.macro("SH", "NAME")
	r.line(escape(p.Name) + ` \- ` + escape(cmd.Short))
	if p.Section == 1 {
		r.macro("SH", "SYNOPSIS")
		r.synopsis(cmd)
	}
	if cmd.Long != "" {
		r.macro("SH", "DESCRIPTION")
		r.text(cmd.Long)
	}
	if p.Section == 1 {
		r.commands(cmd)
		r.flags("OPTIONS", cmd.NonInheritedFlags())
		r.flags("GLOBAL OPTIONS", cmd.InheritedFlags())
	}
	if cmd.Example != "" {
		r.macro("SH", "EXAMPLES")
		r.text(cmd.Example)
	}
	r.seeAlso(cmd, h)
	p.Text = r.b.String()
	return p
}

// synopsis writes how a command is called.
func (r *roff) synopsis(cmd *cobra.Command) {
	path := cmd.CommandPath()
	use := strings.TrimPrefix(cmd.UseLine(), path)
	if cmd.HasAvailableSubCommands() && !cmd.Runnable() {
		use = " COMMAND [flags]"
	}
	r.line(bold(path) + escape(use))
}

// commands writes what the commands of cmd do.
func (r *roff) commands(cmd *cobra.Command) {
	subs := shown(cmd)
	if len(subs) == 0 {
		return
	}
	r.macro("SH", "COMMANDS")
	for _, sub := range subs {
		r.macro("TP")
		r.line(reference(sub))
		r.line(guard(escape(sub.Short)))
	}
}

// flags writes a section of flags, unless there are none.
func (r *roff) flags(title string, flags *pflag.FlagSet) {
	if !flags.HasAvailableFlags() {
		return
	}
	r.macro("SH", title)
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Hidden || f.Deprecated != "" {
			return
		}
		value, usage := pflag.UnquoteUsage(f)
		head := bold("--" + f.Name)
		if f.Shorthand != "" {
			head = bold("-"+f.Shorthand) + ", " + head
		}
		if value != "" {
			head += ` \fI` + escape(value) + `\fR`
		}
		if hasDefault(f) && !strings.Contains(usage, "(default") {
			usage += " (default " + f.DefValue + ")"
		}
		r.macro("TP")
		r.line(head)
		r.line(guard(escape(strings.Join(strings.Fields(usage), " "))))
	})
}

// hasDefault reports whether a flag has a default that is not the zero value of its type.
func hasDefault(f *pflag.Flag) bool {
	return !slices.Contains([]string{"", "false", "0", "0s", "[]", "<nil>"}, f.DefValue)
}

// seeAlso writes references to the pages around a command: its parent, its siblings that are topics, and its own
// commands.
func (r *roff) seeAlso(cmd *cobra.Command, h Header) {
	var also []string
	if cmd.HasParent() {
		also = append(also, reference(cmd.Parent()))
	}
	for _, sub := range slices.Concat(shown(cmd), shown(cmd.Root())) {
		if sub != cmd && (sub.Parent() == cmd || sub.IsAdditionalHelpTopicCommand()) &&
			!slices.Contains(also, reference(sub)) {
			also = append(also, reference(sub))
		}
	}
	if len(also) == 0 && h.URL == "" {
		return
	}
	r.macro("SH", "SEE ALSO")
	if len(also) > 0 {
		r.line(strings.Join(also, ",\n"))
	}
	if h.URL != "" {
		r.macro("PP")
		r.line(escape(h.URL))
	}
}

// reference returns a reference to the page of a command.
func reference(cmd *cobra.Command) string {
	return bold(nameOf(cmd)) + fmt.Sprintf("(%d)", sectionOf(cmd))
}
