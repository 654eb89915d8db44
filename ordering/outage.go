package ordering

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v4"
)

// outage has whoever meets an outage wait, longer with each time, and says so
// once a minute. It is over as soon as anything commits.
type outage struct {
	log *slog.Logger

	mu     sync.Mutex
	since  time.Time // zero: no outage
	said   time.Time
	policy *backoff.ExponentialBackOff
}

// wait waits before the next try, or until ctx ends.
func (o *outage) wait(ctx context.Context, err error) {
	timer := time.NewTimer(o.began(err))
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}

// sayEvery is how often an outage that lasts is logged.
const sayEvery = time.Minute

func (o *outage) began(err error) time.Duration {
	o.mu.Lock()
	defer o.mu.Unlock()
	now := time.Now()
	if o.since.IsZero() {
		o.since = now
		o.policy = backoff.NewExponentialBackOff(
			backoff.WithInitialInterval(50*time.Millisecond),
			backoff.WithMaxInterval(2*time.Second),
			backoff.WithMaxElapsedTime(0))
	}
	if now.Sub(o.said) >= sayEvery {
		o.said = now
		o.log.Warn("the database is out of reach; waiting and trying again",
			"for", now.Sub(o.since).Round(time.Millisecond).String(), "error", err.Error())
	}
	return o.policy.NextBackOff()
}

// over takes note that the database answers.
func (o *outage) over() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.since.IsZero() {
		return
	}
	if !o.said.Before(o.since) {
		o.log.Info("the database is back", "after", time.Since(o.since).Round(time.Millisecond).String())
	}
	o.since = time.Time{}
}
