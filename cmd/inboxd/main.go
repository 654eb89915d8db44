// Command inboxd runs the per-aggregate ordered inbox with the handlers that
// its configuration names.
package main

import (
	"github.com/inboxd/inboxd/cmd"
	"github.com/inboxd/inboxd/handlers"
)

func main() { cmd.Main(handlers.New()) }
