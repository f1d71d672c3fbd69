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
	"time"

	"github.com/holdfast-go/holdfast"
	_ "github.com/holdfast-go/holdfast/memstore" // for the URL memory:
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

// roundTrip is how long the database of a real service would take.
const roundTrip = time.Millisecond

// A party is what the command line says.
type party struct {
	cents  int
	shares int
	users  int
	noLock bool
}

// play opens a packet, lets the users click, and checks the money.
func (p *party) play(ctx context.Context, out io.Writer) (err error) {
	h := &host{packet: &packet{shares: split(p.cents, p.shares)}, work: pause(roundTrip)}
	if !p.noLock {
		if h.locks, err = holdfast.Open(ctx, "memory:"); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, h.locks.Close()) }()
	}
	came := clickTwice(ctx, h, p.users)
	if ctx.Err() != nil {
		return fmt.Errorf("interrupted after %d draws", came.drew)
	}
	found := h.packet.audit()
	printReport(out, p, &came, &found)
	if came.failed > 0 {
		return fmt.Errorf("%d clicks failed, the first: %w", came.failed, came.failure)
	}
	return found.problem()
}

// printReport writes what came of all clicks, and then of the money.
func printReport(out io.Writer, p *party, came *outcome, found *audit) {
	how := "with a lock"
	if p.noLock {
		how = "without a lock"
	}
	fmt.Fprintf(out, "A red packet of %s in %d shares. %d users click twice each, %s.\n\n",
		money(p.cents), p.shares, p.users, how)
	row := func(name string, value any) { fmt.Fprintf(out, "%-24s%8v\n", name, value) }
	row("drew a share", came.drew)
	row("came too late", came.late)
	row("had drawn before", came.again)
	row("were told: busy", came.busy)
	row("errors", came.failed)
	fmt.Fprintln(out)
	row("in the packet at first", money(found.total))
	row("paid", money(found.paid))
	row("left", money(found.left))
	row("users who drew twice", found.users)
	row("shares drawn twice", found.shares)
}

// money writes cents.
func money(cents int) string { return fmt.Sprintf("%d.%02d", cents/100, cents%100) }
