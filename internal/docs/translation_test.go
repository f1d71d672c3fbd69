package docs_test

import (
	"cmp"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"
)

// chinese is how the name of a Chinese page ends, where that of its original ends in ".md".
const chinese = ".zh-CN.md"

// translated returns the name of the translation of a page.
func translated(name string) string {
	return strings.TrimSuffix(name, ".md") + chinese
}

// TestTranslations compares the Chinese pages with their originals. Prose cannot be compared, but all else is: the
// headings, paragraphs, items, tables and code blocks, in their order, and in each of them the code spans, links,
// numbers and bold words.
func TestTranslations(t *testing.T) {
	all := byPath(pages(t))
	compared := 0
	for name, zh := range all {
		original, ok := strings.CutSuffix(name, chinese)
		if !ok {
			continue
		}
		en, ok := all[original+".md"]
		if !ok {
			t.Errorf("%s translates %s.md, which does not exist", name, original)
			continue
		}
		compared++
		for _, difference := range compare(en, zh, all) {
			t.Error(difference)
		}
	}
	if compared < 4 {
		t.Errorf("only %d translations were compared", compared)
	}
}

func byPath(list []page) map[string]page {
	all := map[string]page{}
	for _, p := range list {
		all[p.path] = p
	}
	return all
}

// A unit is the part of a page that is compared with one part of its translation: a heading, a paragraph, an item of a
// list, a row of a table or a code block.
type unit struct {
	page    string
	line    int
	kind    string
	section string // the heading that it is under
	place   string // in the section, such as "row 2 of table 1"
	text    string
	cells   []string  // of a row
	block   *block    // of a code block
	kept    []feature // what a translation has as well
}

func (u unit) String() string {
	return fmt.Sprintf("%s:%d (%s, under %q)", u.page, u.line, u.place, u.section)
}

// excerpt returns the first words of a unit.
func (u unit) excerpt() string {
	text := u.text
	if u.block != nil {
		text = strings.TrimSpace(u.block.code)
	}
	if runes := []rune(text); len(runes) > 80 {
		text = string(runes[:80]) + "…"
	}
	return fmt.Sprintf("%q", text)
}

var (
	headingPattern   = regexp.MustCompile(`^(#+) `)
	itemPattern      = regexp.MustCompile(`^([-*+]|\d+\.) `)
	separatorPattern = regexp.MustCompile(`^\|[-:| ]+\|$`)
)

// units splits a page. The lines below the heads of tables are left out.
func units(p page) []unit {
	var all []unit
	section := ""
	counts := map[string]int{} // of the kinds in the section
	add := func(at part, kind string) *unit {
		counts[kind]++
		place := fmt.Sprintf("%s %d", kind, counts[kind])
		all = append(all, unit{
			page: p.path, line: at.line, kind: kind, section: section, place: place, text: at.text, block: at.block,
		})
		return &all[len(all)-1]
	}
	inTable, inText := false, false
	for _, at := range p.parts {
		wasTable, wasText := inTable, inText
		inTable, inText = false, false
		heading := headingPattern.FindStringSubmatch(at.text)
		switch {
		case at.block != nil:
			add(at, "code block")
		case at.text == "":
		case heading != nil:
			section, counts = at.text, map[string]int{}
			add(at, fmt.Sprintf("heading of level %d", len(heading[1]))).place = "the heading"
		case separatorPattern.MatchString(at.text):
			inTable = true
		case strings.HasPrefix(at.text, "|"):
			inTable = true
			cells := strings.Split(strings.Trim(at.text, "|"), "|")
			if !wasTable {
				counts["row"] = 0
				add(at, "table").cells = cells
			} else {
				row := add(at, "row")
				row.place += fmt.Sprintf(" of table %d", counts["table"])
				row.cells = cells
			}
		case itemPattern.MatchString(at.text):
			inText = true
			if unicode.IsDigit(rune(at.text[0])) {
				add(at, "numbered item")
			} else {
				add(at, "item")
			}
		case wasText:
			inText = true
			all[len(all)-1].text += "\n" + at.text
		default:
			inText = true
			add(at, "paragraph")
		}
	}
	return all
}

// compare returns how a translation differs from its original.
func compare(en, zh page, all map[string]page) []string {
	want, got := units(en), units(zh)
	for i := range want {
		want[i].kept = features(want[i], func(target string) string { return counterpart(en, target, all) })
	}
	for i := range got {
		got[i].kept = features(got[i], func(target string) string { return target })
	}
	same := func(want, got unit) bool { return difference(want, got) == "" }
	sameKind := func(want, got unit) bool { return want.kind == got.kind }
	var found []string
	for _, hunk := range align(want, got, same) {
		if hunk.same {
			continue
		}
		for _, part := range align(hunk.want, hunk.got, sameKind) {
			if part.same {
				a, b := part.want[0], part.got[0]
				found = append(found, fmt.Sprintf("%v is not as %v: %s", b, a, difference(a, b)))
				continue
			}
			for _, u := range part.want {
				found = append(found, fmt.Sprintf("%v is missing in %s: %s", u, zh.path, u.excerpt()))
			}
			for _, u := range part.got {
				found = append(found, fmt.Sprintf("%v has no counterpart in %s: %s", u, en.path, u.excerpt()))
			}
		}
	}
	return found
}

// A hunk is one unit of each page that match, or units between those that match.
type hunk struct {
	same      bool
	want, got []unit
}

// align splits two pages along a longest common subsequence of their units.
func align(want, got []unit, same func(want, got unit) bool) []hunk {
	longest := make([][]int, len(want)+1) // the length of the longest one of the rests from i and j
	for i := range longest {
		longest[i] = make([]int, len(got)+1)
	}
	for i := len(want) - 1; i >= 0; i-- {
		for j := len(got) - 1; j >= 0; j-- {
			longest[i][j] = max(longest[i+1][j], longest[i][j+1])
			if same(want[i], got[j]) {
				longest[i][j] = max(longest[i][j], longest[i+1][j+1]+1)
			}
		}
	}
	var hunks []hunk
	i, j := 0, 0 // the begin of what does not match
	flush := func(k, l int) {
		if i < k || j < l {
			hunks = append(hunks, hunk{want: want[i:k], got: got[j:l]})
		}
	}
	for k, l := 0, 0; ; {
		switch {
		case k == len(want) || l == len(got):
			flush(len(want), len(got))
			return hunks
		case longest[k][l] == longest[k+1][l+1]+1 && same(want[k], got[l]):
			flush(k, l)
			hunks = append(hunks, hunk{same: true, want: want[k : k+1], got: got[l : l+1]})
			k, l = k+1, l+1
			i, j = k, l
		case longest[k][l] == longest[k+1][l]:
			k++
		default:
			l++
		}
	}
}

// counterpart returns the target that a link of an original has in the translation: the translated page where there is
// one, and its heading at the same position. The link to the translation becomes the link back.
func counterpart(en page, target string, all map[string]page) string {
	if strings.Contains(target, "://") {
		return target
	}
	file, fragment, _ := strings.Cut(target, "#")
	name := en.path
	if file != "" {
		name = path.Join(path.Dir(en.path), file)
	}
	if name == translated(en.path) {
		return path.Base(en.path)
	}
	zh, ok := all[translated(name)]
	if !ok {
		return target
	}
	if file != "" {
		file = translated(file)
	}
	if fragment == "" {
		return file
	}
	if i := slices.Index(all[name].anchors, fragment); i >= 0 && i < len(zh.anchors) {
		fragment = zh.anchors[i]
	}
	return file + "#" + fragment
}

// A feature is something of a unit that its translation has as well.
type feature struct {
	what  string
	value string
}

// features returns the features of a unit, other than a code block. The targets of its links are passed to a function.
func features(u unit, link func(target string) string) []feature {
	if u.cells == nil {
		return textFeatures("", u.text, link)
	}
	all := []feature{{"the number of columns", fmt.Sprint(len(u.cells))}}
	for i, cell := range u.cells {
		cell = strings.TrimSpace(cell)
		column := fmt.Sprintf("column %d: ", i+1)
		all = append(all, feature{column + "the verdict", verdict(cell)})
		all = append(all, textFeatures(column, cell, link)...)
		all = append(all, feature{column + "whether there is text", fmt.Sprint(cell != "")})
	}
	return all
}

var (
	verdictPattern = regexp.MustCompile(`^(?:(yes)\b|(\*\*no\*\*)|(no)(?:[:;,]|$)|(\*\*否\*\*)|([是否])(?:[：；，]|$))`)
	spanPattern    = regexp.MustCompile("`[^`]*`")
	numberPattern  = regexp.MustCompile(`\d+(?:[.,]\d+)*`)
)

// verdict returns the yes or no with which a cell begins.
func verdict(cell string) string {
	m := verdictPattern.FindStringSubmatch(cell)
	switch found := strings.Join(m[min(1, len(m)):], ""); found {
	case "yes", "是":
		return "yes"
	case "no", "否":
		return "no"
	case "**no**", "**否**":
		return "**no**"
	default:
		return found
	}
}

// textFeatures returns the features of prose. Their order is free, as the languages differ in that of words.
func textFeatures(prefix, text string, link func(target string) string) []feature {
	var links []string
	for _, m := range linkPattern.FindAllStringSubmatch(text, -1) {
		links = append(links, link(cmp.Or(m[1], m[2])))
	}
	prose := spanPattern.ReplaceAllString(text, "")
	bold := slices.Repeat([]string{"**"}, strings.Count(prose, "**"))
	list := func(values []string) string {
		slices.Sort(values)
		return strings.ReplaceAll("["+strings.Join(values, ", ")+"]", "\n", " ")
	}
	return []feature{
		{prefix + "the code spans", list(spanPattern.FindAllString(text, -1))},
		{prefix + "the links", list(links)},
		{prefix + "the numbers", list(numbers(text))},
		{prefix + "the bold marks", list(bold)},
	}
}

// numbers returns the numbers in prose, except those in code spans and in the targets of links.
func numbers(text string) []string {
	text = linkPattern.ReplaceAllString(spanPattern.ReplaceAllString(text, ""), "]")
	return numberPattern.FindAllString(text, -1)
}

// difference returns how a unit differs from that of the original, or nothing.
func difference(want, got unit) string {
	if want.kind != got.kind {
		return fmt.Sprintf("it is a %s, want a %s", got.kind, want.kind)
	}
	if want.block != nil {
		return blockDifference(*want.block, *got.block)
	}
	for i := range min(len(want.kept), len(got.kept)) { // the number of columns comes first
		if a, b := want.kept[i], got.kept[i]; a != b {
			return fmt.Sprintf("%s: %s, want %s", a.what, b.value, a.value)
		}
	}
	return ""
}

// blockDifference returns how a code block differs from that of the original, except in translated comments.
func blockDifference(want, got block) string {
	if want.language != got.language {
		return fmt.Sprintf("the language is %q, want %q", got.language, want.language)
	}
	a, b := slices.Collect(strings.Lines(want.code)), slices.Collect(strings.Lines(got.code))
	n := min(len(a), len(b))
	for i := range n {
		a, b := strings.TrimSuffix(a[i], "\n"), strings.TrimSuffix(b[i], "\n")
		if a != b && !isTranslated(want.language, a, b) {
			return fmt.Sprintf("line %d is %q, want %q", i+1, b, a)
		}
	}
	if len(a) != len(b) {
		return fmt.Sprintf("there are %d lines, want %d: %q", len(b), len(a), slices.Concat(a[n:], b[n:]))
	}
	return ""
}

// isTranslated reports whether two lines of code differ in their comments only, of which the second is Chinese and has
// the numbers of the first.
func isTranslated(language, want, got string) bool {
	code, comment := splitComment(language, want)
	sameCode, translation := splitComment(language, got)
	a, b := numbers(comment), numbers(translation)
	slices.Sort(a)
	slices.Sort(b)
	return code == sameCode && comment != "" && strings.ContainsFunc(translation, isHan) && slices.Equal(a, b)
}

func isHan(r rune) bool { return unicode.Is(unicode.Han, r) }

var (
	hashComment  = regexp.MustCompile(`^(|.*?\s)(#\s.*)$`)
	slashComment = regexp.MustCompile(`^(|.*?\s)(//\s.*)$`)
	dashComment  = regexp.MustCompile(`^(|.*?\s)(--\s.*)$`)
	remark       = regexp.MustCompile(`^(\s*\S.*?)\s{3,}(\S.*)$`) // in a block without a language, after three spaces
)

// splitComment splits a line into its code, without the space behind it, and its comment.
func splitComment(language, line string) (code, comment string) {
	patterns := []*regexp.Regexp{hashComment}
	switch language {
	case "":
		patterns = append(patterns, remark)
	case "go", "java", "js":
		patterns = []*regexp.Regexp{slashComment}
	case "sql", "lua":
		patterns = []*regexp.Regexp{dashComment}
	case "json":
		patterns = nil
	}
	for _, pattern := range patterns {
		if m := pattern.FindStringSubmatch(line); m != nil {
			return strings.TrimRight(m[1], " \t"), m[2]
		}
	}
	return line, ""
}
