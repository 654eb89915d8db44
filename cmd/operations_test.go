//go:build linux

package cmd

import (
	"bytes"
	"context"
	"os"
	"testing"
)

// TestInterruptedQuestion: whoever interrupts it is told that nothing was done.
func TestInterruptedQuestion(t *testing.T) {
	t.Parallel()
	terminal, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = terminal.Close() }) // it ends the reading
	ctx, interrupt := context.WithCancel(t.Context())
	interrupt()
	var stderr bytes.Buffer
	e := classify(ctx, (&app{stdin: terminal, stderr: &stderr}).confirm(ctx, "retry 3 lanes"))
	expect(t, stderr.String(), "retry 3 lanes? [y/N] \n")
	if e.code != exitFailed || e.Error() != "interrupted before it was confirmed; nothing was changed" {
		t.Errorf("%d, %v", e.code, e)
	}
}
