package sqlite

import (
	"errors"
	"strconv"

	"golang.org/x/sys/windows"
	"golang.org/x/sys/windows/registry"
)

// readClock finds the machine's clock, which goes on while the machine sleeps. Windows counts its starts.
func readClock() (clock, error) {
	const key = `SYSTEM\CurrentControlSet\Control\Session Manager\Memory Management\PrefetchParameters`
	k, err := registry.OpenKey(registry.LOCAL_MACHINE, key, registry.QUERY_VALUE)
	if err != nil {
		return clock{}, errBoot
	}
	defer k.Close()
	n, _, err := k.GetIntegerValue("BootId")
	if err != nil {
		return clock{}, errBoot
	}
	return clock{boot: "windows " + strconv.FormatUint(n, 10), now: windows.DurationSinceBoot}, nil
}

var errBoot = errors.New("which start of the machine this is cannot be read from the registry")
