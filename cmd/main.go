package cmd

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/inboxd/inboxd/handlers"
)

// Main runs the command line of the process with the handlers of reg, to which
// the configuration may add others, and ends the process with the exit code.
// It is all that the main of a team's own binary needs to call:
//
//	func main() {
//		reg := handlers.New()
//		handlers.On(reg, "OrderPaid", debit)
//		cmd.Main(reg)
//	}
func Main(reg *handlers.Registry) {
	os.Exit(run(reg))
}

func run(reg *handlers.Registry) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // the second signal ends the process at once
	return Run(ctx, reg, os.Args[1:], os.Stdin, os.Stdout, os.Stderr, os.Environ())
}
