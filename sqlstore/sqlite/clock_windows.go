package sqlite

import (
	"errors"
	"strconv"
	"time"
	"unsafe"

	"golang.org/x/sys/windows"
	"golang.org/x/sys/windows/registry"
)

// readClock finds the machine's clock. Windows counts its starts. The time since then goes on while the machine sleeps;
// GetTickCount64 would tell it too, but in steps of 15 ms.
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
	query := windows.NewLazySystemDLL("kernelbase.dll").NewProc("QueryInterruptTimePrecise")
	if err := query.Find(); err != nil {
		return clock{}, err // before Windows 10
	}
	now := func() time.Duration {
		var hundreds uint64 // of nanoseconds
		query.Call(uintptr(unsafe.Pointer(&hundreds)))
		return time.Duration(hundreds) * 100
	}
	return clock{boot: "windows " + strconv.FormatUint(n, 10), now: now}, nil
}

var errBoot = errors.New("which start of the machine this is cannot be read from the registry")
