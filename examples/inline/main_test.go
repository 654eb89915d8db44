package inline_test

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
	// sarama's metrics keep a goroutine for as long as the process lives.
	err := goleak.Find(goleak.IgnoreTopFunction("github.com/rcrowley/go-metrics.(*meterArbiter).tick"))
	if err != nil && status == 0 {
		fmt.Fprintln(os.Stderr, err)
		status = 1
	}
	os.Exit(status)
}
