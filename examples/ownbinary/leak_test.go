package main

import (
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/inboxd/inboxd/inboxtest"
)

// TestMain stops the tests' PostgreSQL and looks for goroutines that were left.
func TestMain(m *testing.M) {
	status := m.Run()
	if err := inboxtest.Stop(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		status = 1
	}
	if err := goleak.Find(); err != nil && status == 0 {
		fmt.Fprintln(os.Stderr, err)
		status = 1
	}
	os.Exit(status)
}
