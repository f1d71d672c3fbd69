package docs_test

import (
	"slices"
	"strings"
	"testing"
)

// The original and the translation that TestTranslationsCanFail changes, with ' for the backquote.
const (
	smallOriginal = `# Page

[简体中文](page.zh-CN.md)

Some words on 'Lock', for 30 s, see [below](#the-table).

## The table

| promise | holds | shown by |
|---|---|---|
| one holder | yes | 'TestOne', 'TestTwo' |
| no loss | **no**: see [other.md](other.md#part) | |

## Code

- one item
- another item

'''sh
holdfast ls # the locks, up to 10
holdfast top
'''

'''
DEL lock     when done
no lock      325       225
'''
`
	smallTranslation = `<!-- A glossary.

## not a heading
-->

# 页面

[English](page.md)

关于 'Lock' 的几句话，
为时 30 s，见[下文](#表格)。

## 表格

| 承诺 | 是否成立 | 由此证明 |
|---|---|---|
| 一个持有者 | 是 | 'TestTwo'、'TestOne' |
| 不丢失 | **否**：见 [other.zh-CN.md](other.zh-CN.md#部分) | |

## 代码

- 一项
- 另一项

'''sh
holdfast ls # 锁，最多 10 把
holdfast top
'''

'''
DEL lock     用完之后
no lock      325       225
'''
`
)

// TestTranslationsCanFail: the comparison finds each change of an original, and says where.
func TestTranslationsCanFail(t *testing.T) {
	quoted := func(text string) string { return strings.ReplaceAll(text, "'", "`") }
	others := []page{
		parse("docs/other.md", "# Other\n\n## Part\n"),
		parse("docs/other.zh-CN.md", "# 其他\n\n## 部分\n"),
	}
	differences := func(original string) []string {
		en := parse("docs/page.md", quoted(original))
		zh := parse("docs/page.zh-CN.md", quoted(smallTranslation))
		return compare(en, zh, byPath(append(others, en, zh)))
	}
	if found := differences(smallOriginal); len(found) > 0 {
		t.Fatalf("pages that are in step differ: %q", found)
	}
	const (
		one  = "| one holder | yes | 'TestOne', 'TestTwo' |\n"
		loss = "| no loss | **no**: see [other.md](other.md#part) | |\n"
	)
	for _, test := range []struct {
		what, old, new string
		want           [][]string // each difference has these parts
	}{
		{"a row was added", loss, "| more | yes | 'TestMore' |\n" + loss, [][]string{{
			`docs/page.md:12 (row 2 of table 1, under "## The table") is missing in docs/page.zh-CN.md: "| more |`,
		}}},
		{"a row was removed", one, "", [][]string{{
			`docs/page.zh-CN.md:17 (row 1 of table 1, under "## 表格") has no counterpart in docs/page.md: `,
			"一个持有者",
		}}},
		{"rows were swapped", one + loss, loss + one, [][]string{
			{"docs/page.md:11 (row 1 of table 1", "is missing"},
			{"docs/page.zh-CN.md:18 (row 2 of table 1", "has no counterpart"},
		}},
		{"another test", "'TestTwo'", "'TestThree'", [][]string{{
			`docs/page.zh-CN.md:17 (row 1 of table 1, under "## 表格") is not as `,
			`docs/page.md:11 (row 1 of table 1, under "## The table"): column 3: `,
			"the code spans: ['TestOne', 'TestTwo'], want ['TestOne', 'TestThree']",
		}}},
		{"another verdict", "| yes |", "| **no** |", [][]string{{"column 2: the verdict: yes, want **no**"}}},
		{"bold words", "| yes |", "| yes, **mostly** |", [][]string{{"column 2: the bold marks: [], want [**, **]"}}},
		{"a cell was filled", ") | |", ") | by hand |", [][]string{{
			"column 3: whether there is text: false, want true",
		}}},
		{"a column was added", "| shown by |", "| shown by | where |", [][]string{{
			`docs/page.zh-CN.md:15 (table 1, under "## 表格") is not as`, "the number of columns: 3, want 4",
		}}},
		{"a table was added", "## Code", "| a | b |\n|---|---|\n\n## Code", [][]string{{
			`docs/page.md:14 (table 2, under "## The table") is missing`,
		}}},
		{"a section was added", "## Code", "## More\n\nwith 'code'\n\n## Code", [][]string{
			{`(the heading, under "##`, "is missing"},
			{`docs/page.md:16 (paragraph 1, under "## More") is missing`},
		}},
		{"a heading was removed", "## Code\n\n", "", [][]string{{`(the heading, under "## 代码") has no counterpart`}}},
		{"another level", "## Code", "### Code", [][]string{
			{`docs/page.md:14 (the heading, under "### Code") is missing`},
			{`docs/page.zh-CN.md:20 (the heading, under "## 代码") has no counterpart`},
		}},
		{"a paragraph was added", "## Code", "A paragraph.\n\n## Code", [][]string{{
			`docs/page.md:14 (paragraph 1, under "## The table") is missing in docs/page.zh-CN.md: "A paragraph."`,
		}}},
		{"an item was added", "- another item", "- another item\n- a third", [][]string{{
			`docs/page.md:18 (item 3, under "## Code") is missing`,
		}}},
		{"another number", "30 s", "60 s", [][]string{{
			`docs/page.zh-CN.md:10 (paragraph 2, under "# 页面") is not as `,
			`docs/page.md:5 (paragraph 2, under "# Page"): `,
			"the numbers: [30], want [60]",
		}}},
		{"another heading is linked to", "#the-table", "#code", [][]string{{"the links: [#表格], want [#代码]"}}},
		{"another page is linked to", "other.md#part", "third.md", [][]string{{
			"the links: [other.zh-CN.md#部分], want [third.md]",
		}}},
		{"no link between the languages", "(page.zh-CN.md)", "(other.md)", [][]string{{
			"the links: [page.md], want [other.zh-CN.md]",
		}}},
		{"another command", "holdfast top", "holdfast ui", [][]string{{
			`(code block 1, under "## 代码") is not as`, `line 2 is "holdfast top", want "holdfast ui"`,
		}}},
		{"another command before a comment", "holdfast ls", "holdfast ls --long", [][]string{{
			`line 1 is "holdfast ls # 锁，最多 10 把", want "holdfast ls --long # the locks, up to 10"`,
		}}},
		{"another number in a comment", "up to 10", "up to 20", [][]string{{`line 1 is "holdfast ls # 锁，最多 10 把"`}}},
		{"a comment was removed", " # the locks, up to 10", "", [][]string{{`10 把", want "holdfast ls"`}}},
		{"another output", "225", "226", [][]string{{`(code block 2, under "## 代码") is not as`, "line 2 is"}}},
		{"a line of code was added", "top\n", "top\nholdfast ui\n", [][]string{{
			`there are 2 lines, want 3: ["holdfast ui`,
		}}},
		{"a line of code was removed", "holdfast top\n", "", [][]string{{
			`there are 2 lines, want 1: ["holdfast top`,
		}}},
		{"another language", "'''sh", "'''", [][]string{{`the language is "sh", want ""`}}},
	} {
		t.Run(test.what, func(t *testing.T) {
			changed := strings.Replace(smallOriginal, test.old, test.new, 1)
			if changed == smallOriginal {
				t.Fatalf("%q was not changed", test.old)
			}
			found := differences(changed)
			if len(found) != len(test.want) {
				t.Errorf("%d differences, want %d", len(found), len(test.want))
			}
			for _, parts := range test.want {
				if !slices.ContainsFunc(found, func(difference string) bool {
					return !slices.ContainsFunc(parts, func(part string) bool {
						return !strings.Contains(difference, quoted(part))
					})
				}) {
					t.Errorf("there is no difference with %q", parts)
				}
			}
			if t.Failed() {
				t.Logf("the differences:\n%s", strings.Join(found, "\n"))
			}
		})
	}
}
