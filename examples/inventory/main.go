// Command inventory sells the stock of one warehouse from several shops at once. With a lock around each sale
// the shops sell what there is. Without it they sell the same item twice.
//
// Run `inventory demo` first.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second Ctrl-C ends the program at once
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// A command is a word after the program's name. Its results go to out, its warnings to warn.
type command struct {
	name    string
	summary string
	run     func(ctx context.Context, args []string, out, warn io.Writer) error
}

var commands = []command{
	{"demo", "all in one process: see shops oversell, and see the lock stop it", demoCommand},
	{"warehouse", "keep the stock, and let anyone read and write it", warehouseCommand},
	{"serve", "a shop: sell items of the warehouse over HTTP", serveCommand},
	{"buy", "buy at the shops until nothing is left, and check the account", buyCommand},
}

// run is the program without the process around it. It returns the exit code.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	err := dispatch(ctx, args, stdout, stderr)
	if err == nil || errors.Is(err, flag.ErrHelp) {
		return 0
	}
	fmt.Fprintln(stderr, "inventory:", oneLine(err))
	if _, ok := errors.AsType[*usageError](err); ok {
		return 2
	}
	return 1
}

func dispatch(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	if len(args) == 0 {
		return &usageError{problem: "which command?"}
	}
	name, rest := args[0], args[1:]
	for _, c := range commands {
		if c.name == name {
			return c.run(ctx, rest, stdout, stderr)
		}
	}
	switch name {
	case "help", "-h", "-help", "--help":
		printCommands(stdout)
		return nil
	}
	return &usageError{problem: fmt.Sprintf("unknown command %q", name)}
}

func printCommands(out io.Writer) {
	fmt.Fprint(out, "Several shops sell the stock of one warehouse. A lock keeps them from selling an item\ntwice.\n\n"+
		"Usage: inventory COMMAND [flags]\n\n")
	for _, c := range commands {
		fmt.Fprintf(out, "  %-10s %s\n", c.name, c.summary)
	}
	fmt.Fprint(out, "\nTo begin with: inventory demo\n"+
		"More on a command: inventory COMMAND --help\n\n"+
		"It exits with 0 if all went well, 1 if something failed or was oversold, and 2 if it was\ncalled wrongly.\n")
}
