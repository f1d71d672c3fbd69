package cli

import (
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/rivo/uniseg"
)

// A vt is the screen of a terminal, as far as a program needs one that moves the cursor and writes text. Colours and
// modes are skipped.
type vt struct {
	width, height int
	cells         [][]string // a character that is two columns wide has "" behind it
	x, y          int
	rest          []byte // the beginning of something that is not complete
}

func newVT(width, height int) *vt {
	v := &vt{}
	v.resize(width, height)
	return v
}

func (v *vt) resize(width, height int) {
	v.width, v.height, v.x, v.y = width, height, 0, 0
	v.cells = make([][]string, height)
	for y := range v.cells {
		v.cells[y] = make([]string, width)
		v.clear(y, 0)
	}
}

func (v *vt) clear(y, from int) {
	for x := from; x < v.width; x++ {
		v.cells[y][x] = " "
	}
}

// String is the text on the screen, line by line.
func (v *vt) String() string {
	lines := make([]string, v.height)
	for y := range v.cells {
		lines[y] = strings.TrimRight(strings.Join(v.cells[y], ""), " ")
	}
	return strings.Join(lines, "\n")
}

// write takes what a program writes.
func (v *vt) write(data []byte) {
	v.rest = append(v.rest, data...)
	for len(v.rest) > 0 {
		n := v.step(v.rest)
		if n == 0 {
			return
		}
		v.rest = v.rest[n:]
	}
}

// step takes one character or sequence, and returns its length; 0: it is not complete.
func (v *vt) step(data []byte) int {
	switch data[0] {
	case '\x1b':
		return v.escape(data)
	case '\r':
		v.x = 0
		return 1
	case '\n':
		v.y = min(v.y+1, v.height-1)
		return 1
	case '\b':
		v.x = max(v.x-1, 0)
		return 1
	}
	if data[0] < ' ' {
		return 1
	}
	if !utf8.FullRune(data) {
		return 0
	}
	r, n := utf8.DecodeRune(data)
	w := uniseg.StringWidth(string(r))
	if w == 0 || v.x+w > v.width {
		return n
	}
	v.cells[v.y][v.x] = string(r)
	if w == 2 {
		v.cells[v.y][v.x+1] = ""
	}
	v.x += w
	return n
}

// escape takes a sequence that begins with ESC.
func (v *vt) escape(data []byte) int {
	if len(data) < 2 {
		return 0
	}
	switch data[1] {
	case '[':
		for i := 2; i < len(data); i++ {
			if data[i] >= '@' && data[i] <= '~' {
				v.control(string(data[2:i]), data[i])
				return i + 1
			}
		}
		return 0
	case ']', 'P', '^', '_': // up to BEL or ESC \
		for i := 2; i < len(data); i++ {
			if data[i] == '\a' {
				return i + 1
			}
			if data[i] == '\\' && data[i-1] == '\x1b' {
				return i + 1
			}
		}
		return 0
	case '(', ')':
		if len(data) < 3 {
			return 0
		}
		return 3
	}
	return 2
}

// control does what a control sequence says.
func (v *vt) control(parameters string, final byte) {
	var numbers [2]int
	for i, word := range strings.Split(parameters, ";") {
		if i < len(numbers) {
			numbers[i], _ = strconv.Atoi(word)
		}
	}
	switch final {
	case 'H':
		v.y, v.x = min(max(numbers[0], 1), v.height)-1, min(max(numbers[1], 1), v.width)-1
	case 'C':
		v.x = min(v.x+max(numbers[0], 1), v.width-1)
	case 'J':
		for y := range v.cells {
			v.clear(y, 0)
		}
	case 'K':
		v.clear(v.y, v.x)
	}
}
