package manpages_test

import (
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/holdfast-go/holdfast/internal/cli"
	"github.com/holdfast-go/holdfast/internal/manpages"
)

var header = manpages.Header{
	Manual: "Holdfast Manual", Version: "1.2.3", Date: time.Unix(1_700_000_000, 0), URL: "https://example.com/holdfast",
}

// commands returns the commands that are not hidden, by the file of their page.
func commands(root *cobra.Command) map[string]*cobra.Command {
	all := map[string]*cobra.Command{}
	var visit func(cmd *cobra.Command)
	visit = func(cmd *cobra.Command) {
		section := ".1"
		if !cmd.Runnable() && !cmd.HasSubCommands() {
			section = ".7"
		}
		all[strings.Join(strings.Fields(cmd.CommandPath()), "-")+section] = cmd
		for _, sub := range cmd.Commands() {
			if !sub.Hidden {
				visit(sub)
			}
		}
	}
	visit(root)
	return all
}

// plain undoes the escapes and fonts of a line of roff. It knows only those that the package writes.
var plain = strings.NewReplacer(
	`\(rs`, `\`, `\-`, `-`, `\(aq`, `'`, `\(ga`, "`", `\(dq`, `"`, `\(ha`, `^`, `\(ti`, `~`, `\&`, ``,
	`\fB`, ``, `\fI`, ``, `\fR`, ``, `\[u00B5]`, `µ`,
)

// problem returns what is wrong with a page: a macro that man(7) does not have, an escape that was not intended, a font
// or an indentation that does not end, or characters that are not ASCII. It is empty if nothing is.
func problem(text string) string {
	macro := regexp.MustCompile(`^\.(TH|SH|PP|TP|RS|RE|nf|fi)( ("[^"]*"|[^" ]+))*$`)
	escape := regexp.MustCompile(`^\\(\(rs|-|\(aq|\(ga|\(dq|\(ha|\(ti|&|f[BIR]|\[u[0-9A-F]{4,6}\])`)
	depth := 0
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		switch {
		case strings.HasPrefix(line, ".") && !macro.MatchString(line):
			return "not a macro: " + line
		case strings.HasPrefix(line, "'"):
			return "a line that begins with ': " + line
		case strings.ContainsFunc(line, func(r rune) bool { return r < ' ' || r > '~' }):
			return "not printable ASCII: " + line
		case strings.HasPrefix(line, ".RS"):
			depth++
		case line == ".RE":
			depth--
		}
		for i := strings.IndexByte(line, '\\'); i >= 0; i = strings.IndexByte(line, '\\') {
			found := escape.FindString(line[i:])
			if found == "" {
				return "unknown escape: " + line[i:]
			}
			line = line[i+len(found):]
		}
	}
	fonts := strings.Count(text, `\fB`) + strings.Count(text, `\fI`)
	switch {
	case !strings.HasPrefix(text, ".TH "):
		return "no .TH at the beginning"
	case depth != 0 || strings.Count(text, "\n.nf\n") != strings.Count(text, "\n.fi\n"):
		return "an indentation does not end"
	case fonts != strings.Count(text, `\fR`):
		return "a font does not end"
	}
	return ""
}

// TestPages: every command that the help shows has a page, with its summary, its flags and its examples, and the pages
// are valid.
func TestPages(t *testing.T) {
	root := cli.Command()
	want := commands(root)
	if len(want) < 25 {
		t.Fatalf("only %d commands were found", len(want))
	}
	for _, page := range manpages.Pages(root, header) {
		cmd := want[page.File()]
		if cmd == nil {
			t.Errorf("%s is a page of no command", page.File())
			continue
		}
		delete(want, page.File())
		t.Run(page.File(), func(t *testing.T) {
			if wrong := problem(page.Text); wrong != "" {
				t.Error(wrong)
			}
			text := plain.Replace(page.Text)
			needs := []string{
				"\n.SH NAME\n" + page.Name + " - " + cmd.Short + "\n",
				`"holdfast 1.2.3" "Holdfast Manual"`, " 2023-11-14 ",
				"\n.SH \"SEE ALSO\"\n", header.URL,
			}
			if cmd.Runnable() {
				needs = append(needs, "\n.SH SYNOPSIS\n"+cmd.UseLine()+"\n")
			}
			for line := range strings.Lines(cmd.Long + "\n" + cmd.Example) {
				needs = append(needs, strings.TrimSpace(line))
			}
			for _, sub := range cmd.Commands() {
				if !sub.Hidden {
					needs = append(needs, "\n"+page.Name+"-"+sub.Name()+"(", sub.Short)
				}
			}
			if page.Section == 1 {
				cmd.Flags().AddFlagSet(cmd.InheritedFlags())
				cmd.Flags().VisitAll(func(f *pflag.Flag) {
					value, usage := pflag.UnquoteUsage(f)
					head := "--" + f.Name
					if f.Shorthand != "" {
						head = "-" + f.Shorthand + ", " + head
					}
					if value != "" {
						head += " " + value
					}
					needs = append(needs, "\n.TP\n"+head+"\n"+strings.ReplaceAll(usage, "\n", " "))
				})
			}
			for _, s := range needs {
				if !strings.Contains(text, s) {
					t.Errorf("the page lacks %q", s)
				}
			}
		})
	}
	for file := range want {
		t.Errorf("there is no %s", file)
	}
}

// strange is a command whose help has all that roff would interpret.
func strange() *cobra.Command {
	root := &cobra.Command{
		Use: "strange", Short: "Shows 'quotes', \"more\", C:\\temp and ~/x^2 - or not",
		Long: ".TH is no macro here.\n'tis one neither, and takes 5 µs.\nThis is filled\nin one paragraph.\n\n" +
			"Another one:\n\n  .SH verbatim   \\fB kept\n    deeper\n\n  after a gap\n\n.dot",
		Example: "  strange --sep '\\n' \"$(date +%F)\" `x` # a-b",
		Run:     func(*cobra.Command, []string) {},
	}
	root.Flags().StringP("sep", "s", ".", ".separator, with a `CHARACTER`")
	root.AddCommand(
		&cobra.Command{Use: "gone", Short: "Hidden", Hidden: true, Run: func(*cobra.Command, []string) {}},
		&cobra.Command{Use: "sub", Short: ".starts with a dot", Run: func(*cobra.Command, []string) {}},
		&cobra.Command{Use: "topic", Short: "A topic", Long: "  code  meaning"},
	)
	return root
}

func TestEscapes(t *testing.T) {
	pages := manpages.Pages(strange(), manpages.Header{Manual: "M"})
	var files []string
	for _, p := range pages {
		files = append(files, p.File())
		if wrong := problem(p.Text); wrong != "" {
			t.Errorf("%s: %s\n%s", p.File(), wrong, p.Text)
		}
	}
	if want := []string{"strange.1", "strange-sub.1", "strange-topic.7"}; !slices.Equal(files, want) {
		t.Fatalf("%q, want %q", files, want)
	}
	for _, want := range []string{
		".TH STRANGE 1 \"\" strange M\n",
		"strange \\- Shows \\(aqquotes\\(aq, \\(dqmore\\(dq, C:\\(rstemp and \\(tix\\(ha2 \\- or not\n",
		"\n\\&.TH is no macro here.\n\\(aqtis one neither, and takes 5 \\[u00B5]s.\nThis is filled\n" +
			"in one paragraph.\n.PP\n",
		"Another one:\n.PP\n.RS 4\n.nf\n\\&.SH verbatim   \\(rsfB kept\n  deeper\n\n" +
			"after a gap\n.fi\n.RE\n.PP\n\\&.dot\n",
		"\n\\fB\\-s\\fR, \\fB\\-\\-sep\\fR \\fICHARACTER\\fR\n\\&.separator, with a CHARACTER (default .)\n",
		"strange \\-\\-sep \\(aq\\(rsn\\(aq \\(dq$(date +%F)\\(dq \\(gax\\(ga # a\\-b\n",
	} {
		want = strings.ReplaceAll(want, "\\(tix", "\\(ti/x")
		if !strings.Contains(pages[0].Text, want) {
			t.Errorf("the page lacks %q:\n%s", want, pages[0].Text)
		}
	}
}

// TestProblemsAreFound: the check of the pages finds what it is there to find.
func TestProblemsAreFound(t *testing.T) {
	good := ".TH X 1\n.SH NAME\nx \\- y\n"
	if wrong := problem(good); wrong != "" {
		t.Fatal(wrong)
	}
	for _, bad := range []string{
		"x\n", good + ".XX\n", good + "'x\n", good + "C:\\temp\n", good + "\\fBx\n", good + ".RS 4\n.nf\n.fi\n",
		good + "µ\n", good + ".SH \"a\" b\"\n",
	} {
		if problem(bad) == "" {
			t.Errorf("%q passed", bad)
		}
	}
}

// TestGroff: groff reads the pages without a warning, and shows every line of the examples unchanged.
func TestGroff(t *testing.T) {
	groff, err := exec.LookPath("groff")
	if err != nil {
		t.Skip("there is no groff here; TestPages and TestEscapes have checked the pages")
	}
	for _, root := range []*cobra.Command{cli.Command(), strange()} {
		all := commands(root)
		for _, page := range manpages.Pages(root, header) {
			cmd := exec.CommandContext(t.Context(), groff, "-man", "-ww", "-Tutf8", "-P-c", "-rLL=200n", "-")
			cmd.Stdin = strings.NewReader(page.Text)
			var warned strings.Builder
			cmd.Stderr = &warned
			out, err := cmd.Output()
			if err != nil || warned.Len() > 0 {
				t.Errorf("%s: %v: %s", page.File(), err, warned.String())
				continue
			}
			shown := regexp.MustCompile(".\b").ReplaceAllString(string(out), "") // bold, by overprinting
			for line := range strings.Lines(all[page.File()].Example) {
				if line = strings.TrimSpace(line); !strings.Contains(shown, line) {
					t.Errorf("%s does not show %q:\n%s", page.File(), line, shown)
				}
			}
		}
	}
}
