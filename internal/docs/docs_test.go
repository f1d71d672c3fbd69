// Package docs_test checks the Markdown files of the repository: their links, the tests and examples that they name,
// that their code blocks are valid, and that translations are in step with their originals.
package docs_test

import (
	"bytes"
	"cmp"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/holdfast-go/holdfast/internal/testkit"
)

// root is the repository, as seen from this package.
const root = "../.."

// A page is a Markdown file.
type page struct {
	path     string // from root
	text     string // without code blocks
	blocks   []block
	parts    []part          // prose and code blocks, in order, without comments
	anchors  []string        // of the headings, in order
	headings map[string]bool // by anchor
}

// A part is a line of prose or a code block.
type part struct {
	line  int    // in the file
	text  string // of a line of prose, without the space around it
	block *block // nil for prose
}

// A block is a fenced code block.
type block struct {
	language string
	line     int // of its first line in the file
	code     string
}

// pages reads all Markdown files that git tracks.
func pages(t *testing.T) []page {
	t.Helper()
	var all []page
	for _, path := range tracked(t, "*.md") {
		text, err := os.ReadFile(filepath.Join(root, path))
		testkit.Must(t, err)
		all = append(all, parse(path, string(text)))
	}
	if len(all) < 10 {
		t.Fatalf("only %d Markdown files were found", len(all))
	}
	return all
}

// tracked lists the files that match a pattern and are part of the repository.
func tracked(t *testing.T, pattern string) []string {
	t.Helper()
	list := exec.CommandContext(
		t.Context(),
		"git",
		"-C",
		root,
		"ls-files",
		"--cached",
		"--others",
		"--exclude-standard",
		"--",
		pattern,
	)
	out, err := list.Output()
	testkit.Must(t, err)
	var files []string
	for path := range strings.Lines(string(out)) {
		path = strings.TrimSpace(path)
		if _, err := os.Stat(filepath.Join(root, path)); err == nil {
			files = append(files, path)
		}
	}
	return files
}

// parse splits a Markdown file into its prose and its code blocks.
func parse(path, text string) page {
	p := page{path: path, headings: map[string]bool{}}
	var prose strings.Builder
	var open *block
	n, comment := 0, false
	for line := range strings.Lines(text) {
		n++
		trimmed := strings.TrimSpace(line)
		language, fence := strings.CutPrefix(trimmed, "```")
		switch {
		case fence && open == nil:
			open = &block{language: language, line: n + 1}
		case fence:
			p.blocks = append(p.blocks, *open)
			p.parts = append(p.parts, part{line: open.line, block: open})
			open = nil
		case open != nil:
			open.code += line
		case comment || strings.HasPrefix(trimmed, "<!--"):
			prose.WriteString(line)
			comment = !strings.Contains(line, "-->")
		default:
			prose.WriteString(line)
			p.parts = append(p.parts, part{line: n, text: trimmed})
			if title, ok := strings.CutPrefix(strings.TrimLeft(trimmed, "#"), " "); ok &&
				strings.HasPrefix(trimmed, "#") {
				p.anchors = append(p.anchors, anchor(title))
				p.headings[anchor(title)] = true
			}
		}
	}
	p.text = prose.String()
	return p
}

// anchor returns the fragment by which a heading is linked to, as GitHub makes it.
func anchor(heading string) string {
	heading = regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`).ReplaceAllString(heading, "$1")
	return strings.Map(func(r rune) rune {
		switch {
		case r == ' ':
			return '-'
		case unicode.IsLetter(r), unicode.IsDigit(r), r == '-', r == '_':
			return unicode.ToLower(r)
		}
		return -1
	}, heading)
}

// TestAnchor: anchors are made from headings as GitHub makes them, also from Chinese ones.
func TestAnchor(t *testing.T) {
	for heading, want := range map[string]string{
		"What was seen":                    "what-was-seen",
		"Redis, one server":                "redis-one-server",
		"The `ttl` of [a lease](lease.md)": "the-ttl-of-a-lease",
		"什么时候用 Redlock？":                   "什么时候用-redlock",
		"Redlock：Redis 主节点的多数派":            "redlockredis-主节点的多数派",
		"1. 谁创建了键，谁就拥有锁":                   "1-谁创建了键谁就拥有锁",
	} {
		if got := anchor(heading); got != want {
			t.Errorf("the anchor of %q is %q, want %q", heading, got, want)
		}
	}
}

// linkPattern matches the targets of links and images.
var linkPattern = regexp.MustCompile(`\]\(([^)\s]+)\)|(?:src|srcset|href)="([^"]+)"`)

// TestLinks follows every link to a file or heading of the repository.
func TestLinks(t *testing.T) {
	all := pages(t)
	headings := map[string]map[string]bool{}
	for _, p := range all {
		headings[p.path] = p.headings
	}
	for _, p := range all {
		for _, m := range linkPattern.FindAllStringSubmatch(p.text, -1) {
			target := cmp.Or(m[1], m[2])
			if strings.Contains(target, "://") || strings.HasPrefix(target, "mailto:") {
				continue
			}
			file, fragment, _ := strings.Cut(target, "#")
			path := p.path
			if file != "" {
				path = filepath.Join(filepath.Dir(p.path), file)
			}
			if _, err := os.Stat(filepath.Join(root, path)); err != nil {
				t.Errorf("%s links to %s, which does not exist", p.path, target)
			} else if fragment != "" && !headings[path][fragment] {
				t.Errorf("%s links to %s, but %s has no such heading", p.path, target, path)
			}
		}
	}
}

// TestNamedTests looks for every test, example and fuzz target that is mentioned.
func TestNamedTests(t *testing.T) {
	exists := map[string]bool{}
	declared := regexp.MustCompile(`(?m)^func ((?:Test|Example|Fuzz|Benchmark)\w*)\(`)
	for _, path := range tracked(t, "*_test.go") {
		text, err := os.ReadFile(filepath.Join(root, path))
		testkit.Must(t, err)
		for _, m := range declared.FindAllStringSubmatch(string(text), -1) {
			exists[m[1]] = true
		}
	}
	mention := regexp.MustCompile(`\b(?:Test|Fuzz|Benchmark|Example)[A-Z]\w*\b`)
	mentioned := 0
	for _, p := range pages(t) {
		for _, name := range mention.FindAllString(p.text, -1) {
			mentioned++
			if !exists[name] {
				t.Errorf("%s names %s, which does not exist", p.path, name)
			}
		}
	}
	if mentioned < 50 {
		t.Errorf("only %d tests are mentioned", mentioned)
	}
}

// TestCodeBlocks checks the code blocks that are not Go: shell scripts and JSON for their syntax, and that every other
// block says a language that is known here.
func TestCodeBlocks(t *testing.T) {
	known := []string{
		"",
		"go",
		"sh",
		"console",
		"json",
		"sql",
		"yaml",
		"ini",
		"dockerfile",
		"crontab",
		"java",
		"js",
		"lua",
		"promql",
	}
	for _, p := range pages(t) {
		for _, b := range p.blocks {
			switch b.language {
			case "sh":
				check := exec.CommandContext(t.Context(), "bash", "-n")
				check.Stdin = strings.NewReader(b.code)
				if out, err := check.CombinedOutput(); err != nil {
					t.Errorf("%s:%d: %v: %s", p.path, b.line, err, out)
				}
			case "json":
				decoder := json.NewDecoder(bytes.NewBufferString(b.code))
				for decoder.More() {
					var value any
					if err := decoder.Decode(&value); err != nil {
						t.Errorf("%s:%d: %v", p.path, b.line, err)
						break
					}
				}
			default:
				if !slices.Contains(known, b.language) {
					t.Errorf("%s:%d: a code block in %q, which no check knows", p.path, b.line, b.language)
				}
			}
		}
	}
}
