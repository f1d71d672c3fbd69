package sqlite

import "io/fs"

// inode is of no use on Windows, which has no datagram sockets.
func inode(fs.FileInfo) string { return "" }
