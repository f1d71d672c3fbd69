//go:build !linux

package sqlite

// statFS reports nothing: it is known on Linux alone.
func statFS(string) (kind string, free int64) { return "", -1 }
