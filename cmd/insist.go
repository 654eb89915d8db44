package cmd

import (
	"context"
	"os"
	"os/signal"
	"sync"
	"syscall"
)

// insistence tells a second request to stop from the first.
type insistence struct {
	again chan struct{} // closed at the second request

	signals chan os.Signal
	ended   chan struct{}
	wait    sync.WaitGroup
}

// insistOn begins to listen. The first request is the end of ctx; from then on a
// signal is the second one. While it listens, no signal ends the process.
func insistOn(ctx context.Context) *insistence {
	i := &insistence{again: make(chan struct{}), signals: make(chan os.Signal, 4), ended: make(chan struct{})}
	signal.Notify(i.signals, os.Interrupt, syscall.SIGTERM)
	i.wait.Go(func() { i.listen(ctx) })
	return i
}

func (i *insistence) listen(ctx context.Context) {
	select {
	case <-ctx.Done():
	case <-i.ended:
		return
	}
	more := 1
	// A signal that ended ctx comes here as well.
	if context.Cause(ctx) != context.Canceled { //nolint:errorlint // by errors.Is a signal is context.Canceled, too
		more = 2
	}
	for range more {
		select {
		case <-i.signals:
		case <-i.ended:
			return
		}
	}
	close(i.again)
}

// stop ends the listening.
func (i *insistence) stop() {
	signal.Stop(i.signals)
	close(i.ended)
	i.wait.Wait()
}
