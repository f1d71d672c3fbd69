// Command holdfast runs commands under locks, and shows and breaks locks. See docs/cli.md, or holdfast --help.
package main

import (
	"os"

	"github.com/holdfast-go/holdfast/internal/cli"
)

func main() { os.Exit(cli.Main(os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) }
