package ordering

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/cenkalti/backoff/v4"

	"github.com/inboxd/inboxd/handlers"
	"github.com/inboxd/inboxd/internal/fault"
)

// Retry is a policy of exponential backoff with jitter.
type Retry struct {
	// Initial is the wait after the first failed attempt. Default 200 ms.
	Initial time.Duration
	// Max is the longest wait. Default 1 min.
	Max time.Duration
	// Multiplier is what each wait is longer by than the one before, at least 1.
	// Default 2.
	Multiplier float64
	// Jitter is how far a wait is off at random, as a share of it, up to 1.
	// Default 0.25. Negative: none.
	Jitter float64
	// Attempts is how many attempts an event has before its lane is stuck.
	// Default 10.
	Attempts int
	// Permanent and Transient are SQLSTATEs, or classes of them, the first two
	// letters. An error of Permanent makes the lane stuck at once; one of
	// Transient is tried again for as long as it takes, and uses up no attempt.
	Permanent, Transient []string
}

func (r Retry) withDefaults() Retry {
	orElse(&r.Initial, 200*time.Millisecond)
	orElse(&r.Max, max(time.Minute, r.Initial))
	orElse(&r.Multiplier, 2)
	orElse(&r.Jitter, 0.25)
	orElse(&r.Attempts, 10)
	return r
}

func (r Retry) check(name string) error {
	var errs []error
	wrong := func(format string, args ...any) { errs = append(errs, fmt.Errorf(name+"."+format, args...)) }
	if r.Initial < time.Millisecond {
		wrong("Initial is %s, but must be at least %s", r.Initial, time.Millisecond)
	}
	if r.Max < r.Initial {
		wrong("Max is %s, but must be at least %s", r.Max, r.Initial)
	}
	if !(r.Multiplier >= 1 && r.Multiplier <= 1000) {
		wrong("Multiplier is %g, but must be from 1 to 1000", r.Multiplier)
	}
	if !(r.Jitter <= 1) {
		wrong("Jitter is %g, but must be 1 at most", r.Jitter)
	}
	if r.Attempts < 1 {
		wrong("Attempts is %d, but must be at least 1", r.Attempts)
	}
	for field, states := range map[string][]string{"Permanent": r.Permanent, "Transient": r.Transient} {
		for _, state := range states {
			if !isState(state) {
				wrong("%s holds %q, but must hold SQLSTATEs, such as 23505, or classes of them, such as 23", field, state)
			}
		}
	}
	return errors.Join(errs...)
}

// isState reports whether s is an SQLSTATE or the class of some.
func isState(s string) bool {
	if len(s) != 2 && len(s) != 5 {
		return false
	}
	return strings.Trim(s, "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ") == ""
}

// permanent and transient go by the longest SQLSTATE or class that fits, since it
// says most; of equals permanent counts.
func (r Retry) permanent(err error) bool {
	n := longestState(err, r.Permanent)
	return n > 0 && n >= longestState(err, r.Transient)
}

func (r Retry) transient(err error) bool {
	return longestState(err, r.Transient) > longestState(err, r.Permanent)
}

// longestState is the length of the longest of the states that fits the error; 0:
// none does.
func longestState(err error, states []string) (longest int) {
	state := fault.State(err)
	for _, s := range states {
		if state != "" && strings.HasPrefix(state, s) {
			longest = max(longest, len(s))
		}
	}
	return longest
}

// wait is the time to wait after the n-th failed attempt.
func (r Retry) wait(n int) time.Duration {
	policy := backoff.NewExponentialBackOff(
		backoff.WithInitialInterval(r.Initial),
		backoff.WithMaxInterval(r.Max),
		backoff.WithMultiplier(r.Multiplier),
		backoff.WithRandomizationFactor(max(r.Jitter, 0)),
		backoff.WithMaxElapsedTime(0))
	d := policy.NextBackOff()
	for range min(n, 64) - 1 {
		d = policy.NextBackOff()
	}
	return min(d, r.Max)
}

// over puts what a type's policy says over the processor's.
func (r Retry) over(own handlers.Retry) Retry {
	if own.Never {
		r.Attempts = 1
		return r
	}
	if own.Initial != 0 {
		r.Initial = own.Initial
		r.Max = max(r.Max, r.Initial)
	}
	if own.Max != 0 {
		r.Max = own.Max
		r.Initial = min(r.Initial, r.Max)
	}
	if own.Multiplier != 0 {
		r.Multiplier = own.Multiplier
	}
	if own.Jitter != 0 {
		r.Jitter = own.Jitter
	}
	if own.Attempts != 0 {
		r.Attempts = own.Attempts
	}
	return r
}

// policies has the policy of each event type.
type policies struct {
	common Retry
	byType map[string]Retry
}

func newPolicies(cfg Config, entries map[string]*handlers.Entry) (policies, error) {
	p := policies{common: cfg.Retry, byType: map[string]Retry{}}
	for eventType, entry := range entries {
		if entry.Retry != nil {
			p.byType[eventType] = p.common.over(*entry.Retry)
		}
	}
	for eventType, own := range cfg.Policies {
		if entry := entries[eventType]; entry == nil || entry.Form == handlers.Ignored {
			return p, fmt.Errorf("there is a policy for event type %q, but no handler", eventType)
		}
		r := p.of(eventType).over(own)
		if err := r.check("the policy of event type " + eventType); err != nil {
			return p, err
		}
		for name, other := range entries { // its aliases as well
			if other == entries[eventType] {
				p.byType[name] = r
			}
		}
	}
	return p, nil
}

func (p policies) of(eventType string) Retry {
	if r, ok := p.byType[eventType]; ok {
		return r
	}
	return p.common
}
