package docs_test

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"
)

// TestChinese checks how the Chinese pages are written: a space between Chinese and Latin text, full-width punctuation
// in Chinese sentences, one term for each concept, and marks that GitHub renders.
func TestChinese(t *testing.T) {
	checked := 0
	for _, p := range pages(t) {
		if !strings.HasSuffix(p.path, chinese) {
			continue
		}
		for _, u := range units(p) {
			checked++
			for _, fault := range chineseFaults(u.text) {
				t.Errorf("%v: %s", u, fault)
			}
		}
	}
	if checked < 300 {
		t.Errorf("only %d paragraphs, rows and headings were checked", checked)
	}
}

// otherTerms are synonyms that the pages do not use, with the terms of the glossary in README.zh-CN.md.
var otherTerms = map[string]string{
	"隔离令牌": "栅栏令牌", "防护令牌": "栅栏令牌", "围栏": "栅栏", "租期": "租约", "续租": "续约", "驱逐": "淘汰",
	"故障切换": "故障转移", "领导者": "leader", "从节点": "副本", "大多数节点": "多数派", "协程": "goroutine", "上下文": "context",
}

var (
	unspaced     = regexp.MustCompile(`\p{Han}[A-Za-z0-9]|[A-Za-z0-9]\p{Han}`)
	halfWidth    = regexp.MustCompile(`\p{Han}[,;:?!()]|[,;:?!()]\p{Han}|\p{Han}\.(?:\s|$)`)
	brokenLine   = regexp.MustCompile(`\p{Han}\n\p{Han}`)
	linkMarks    = regexp.MustCompile(`!?\[([^\]]*)\]\([^)\s]+\)`)
	emphasisMark = regexp.MustCompile(`\*+`)
)

// chineseFaults returns what is wrong with the form of Chinese prose.
func chineseFaults(text string) []string {
	var faults []string
	add := func(format, found string) {
		if found != "" {
			faults = append(faults, fmt.Sprintf(format, found))
		}
	}
	marked := spanPattern.ReplaceAllString(text, "`x`")
	add("GitHub does not render the emphasis at %q", badEmphasis(linkMarks.ReplaceAllString(marked, "[$1]")))
	plain := linkMarks.ReplaceAllString(linkMarks.ReplaceAllString(text, "$1"), "$1") // a link can be around a picture
	plain = emphasisMark.ReplaceAllString(spanPattern.ReplaceAllString(plain, "x"), "")
	add("a space is missing in %q", unspaced.FindString(plain))
	add("half-width punctuation in %q", halfWidth.FindString(plain))
	add("browsers show a space for the end of the line in %q", brokenLine.FindString(plain))
	for other, term := range otherTerms {
		if strings.Contains(plain, other) {
			add("%s", other+" should be "+term)
		}
	}
	slices.Sort(faults)
	return faults
}

// badEmphasis returns an asterisk, with what is around it, that CommonMark takes for a plain one. One that opens must
// not be before punctuation, and one that closes not behind it, unless space or punctuation is on the other side. In
// Chinese there is no space between a sentence and the next, so that "**一。**二" shows its asterisks.
func badEmphasis(text string) string {
	neutral := func(r rune) bool { return r == 0 || unicode.IsSpace(r) || isPunctuation(r) }
	opened := false
	for _, at := range emphasisMark.FindAllStringIndex(text, -1) {
		var before, after rune
		for _, r := range text[:at[0]] {
			before = r
		}
		for _, r := range text[at[1]:] {
			after = r
			break
		}
		outside, inside := before, after
		if opened {
			outside, inside = after, before
		}
		if inside == 0 || unicode.IsSpace(inside) || isPunctuation(inside) && !neutral(outside) {
			return string(before) + text[at[0]:at[1]] + string(after)
		}
		opened = !opened
	}
	return ""
}

func isPunctuation(r rune) bool { return unicode.IsPunct(r) || unicode.IsSymbol(r) }

// TestChineseCanFail: each fault is found, and none where there is none.
func TestChineseCanFail(t *testing.T) {
	for text, want := range map[string]string{
		"在 Redis 上，`SET` 返回[租约](lease.md)。": "",
		"**丢失会被报告**。是**租约**：**`max-ttl`**。": "",
		"**那么 Holdfast 呢？** 用同一时序。":         "",
		"获取锁，\n然后释放 `lock`\n的持有者":           "",
		"[![页面 ui](ui.png)](cli.md#ui)":     "",
		"在Redis 上":                          `a space is missing in "在R"`,
		"`SET`可以":                           `a space is missing in "x可"`,
		"大约 4秒":                             `a space is missing in "4秒"`,
		"获取锁,然后释放":                          `half-width punctuation in "锁,"`,
		"续约 (后台)":                           `half-width punctuation in "(后"`,
		"获取锁.":                              `half-width punctuation in "锁."`,
		"获取\n锁":                             `browsers show a space for the end of the line in "取\n锁"`,
		"**丢失会被报告。**如果":                     `GitHub does not render the emphasis at "。**如"`,
		"见**“下文”**":                         `GitHub does not render the emphasis at "见**“"`,
		"用隔离令牌":                             "隔离令牌 should be 栅栏令牌",
	} {
		if got := strings.Join(chineseFaults(text), "; "); got != want {
			t.Errorf("the faults of %q are %q, want %q", text, got, want)
		}
	}
}
