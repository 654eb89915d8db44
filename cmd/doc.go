// Package cmd is the command line of inboxd: the root, a file a command, and
// what they share.
//
// A team's own binary has every command, with its own handlers: see [Main].
//
// # How a command is made
//
// A file has a function that takes the *app, which holds what the process gave
// (streams, environment, context) and what the root's flags said, and returns
// a *cobra.Command; root.go lists the function in commands. A noun (config,
// lanes) is made by noun, which gives it its verbs. A verb does its work in
// RunE and ends by returning an error: none of them prints a failure or ends
// the process. What is returned becomes an exit code and a message in exit.go,
// the one place that knows both:
//
//   - 0 done
//   - 1 failed
//   - 2 wrong use: flags, arguments, configuration
//   - 3 not found
//   - 4 refused
//   - 5 database or broker out of reach
//   - 6 done in part
//
// Data goes to stdout, through output.go where it lists or shows things; all
// else goes to stderr.
//
// # Goroutines
//
// The first SIGINT or SIGTERM cancels the context that commands run in; a second
// one ends the process as if nobody had caught it. serve and dev listen for the
// second one themselves (insist.go), roll back what still runs, and end.
//
// serve and dev run a service.Service in one goroutine and wait for it, at most
// for a few seconds after a second signal. ingest reads ahead in another; if that
// one waits for a line of stdin, it ends with the process. The progress of a
// sample is drawn by one that ends with the sample.
package cmd
