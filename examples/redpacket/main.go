// Command redpacket shares out a sum of money among users who all click at once, and twice. With a lock each
// draws at most once, and what is paid is what was in the packet. Without it, it is not.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
)

const about = `A red packet: a sum of money in random shares. Whoever clicks first draws a share, once.
All users click at the same moment, and each of them twice.

It exits with 0 if the money adds up, 1 if it does not or something failed, and 2 if it was
called wrongly.

Examples:
  redpacket
  redpacket --no-lock

Flags:
`

// errUsage marks what is wrong with the command line.
var errUsage = errors.New("see redpacket --help")

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second Ctrl-C ends the program at once
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// run is the program without the process around it. It returns the exit code.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	p, err := parse(args, stdout)
	if err == nil {
		err = p.play(ctx, stdout)
	}
	if err == nil || errors.Is(err, flag.ErrHelp) {
		return 0
	}
	fmt.Fprintln(stderr, "redpacket:", strings.ReplaceAll(err.Error(), "\n", "; "))
	if errors.Is(err, errUsage) {
		return 2
	}
	return 1
}

func parse(args []string, out io.Writer) (p party, err error) {
	fs := flag.NewFlagSet("redpacket", flag.ContinueOnError)
	fs.SetOutput(io.Discard) // a mistake gets one line, not a page
	fs.IntVar(&p.cents, "cents", 10000, "how much is in the packet")
	fs.IntVar(&p.shares, "shares", 20, "in how many shares")
	fs.IntVar(&p.users, "users", 50, "how many users click")
	fs.BoolVar(&p.noLock, "no-lock", false, "draw without a lock, to see what happens")
	err = fs.Parse(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		fmt.Fprint(out, about)
		fs.SetOutput(out)
		fs.PrintDefaults()
		return p, err
	case err != nil:
		return p, fmt.Errorf("%w (%w)", err, errUsage)
	case fs.NArg() > 0:
		return p, fmt.Errorf("unexpected argument %q (%w)", fs.Arg(0), errUsage)
	case p.shares < 1 || p.users < 1:
		return p, fmt.Errorf("--shares and --users must be at least 1 (%w)", errUsage)
	case p.cents < p.shares:
		return p, fmt.Errorf("--cents must be at least --shares: a share is a cent or more (%w)", errUsage)
	}
	return p, nil
}
