package kafka

import (
	"context"
	"time"

	"github.com/cenkalti/backoff/v4"
)

// newBackoff doubles the wait from first to at most longest, jittered by half,
// without end.
func newBackoff(first, longest time.Duration) *backoff.ExponentialBackOff {
	return backoff.NewExponentialBackOff(
		backoff.WithInitialInterval(first),
		backoff.WithMaxInterval(longest),
		backoff.WithMultiplier(2),
		backoff.WithMaxElapsedTime(0),
	)
}

// sleep waits, and reports whether it did so to the end: ctx ends it early.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}
