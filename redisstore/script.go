package redisstore

import (
	_ "embed" // for the scripts
	"strings"

	"github.com/holdfast-go/holdfast/internal/rediswire"
)

// The scripts. Their headers say what they expect and what holds; line.lua has the layout of the keys.
var (
	//go:embed line.lua
	lineSource string
	//go:embed probe.lua
	probeSource string
	//go:embed join.lua
	joinSource string
	//go:embed keep.lua
	keepSource string
	//go:embed leave.lua
	leaveSource string
	//go:embed break.lua
	breakSource string
	//go:embed list.lua
	listSource string

	probeScript = newScript(probeSource)
	joinScript  = newScript(joinSource)
	keepScript  = newScript(keepSource)
	leaveScript = newScript(leaveSource)
	breakScript = newScript(breakSource)
	listScript  = newScript(listSource)
)

// newScript puts line.lua where the source asks for it. What stands before that line runs without it: a function that
// is defined there costs nothing on the quick way.
func newScript(source string) *script {
	return rediswire.NewScript(strings.Replace(source, "--#include line.lua\n", lineSource, 1))
}
