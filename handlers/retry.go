package handlers

import (
	"errors"
	"fmt"
	"time"
)

// Retry is a policy of exponential backoff for the events of one type. A field
// that is zero is as the processor has it.
type Retry struct {
	// Initial is the wait after the first failed attempt.
	Initial time.Duration
	// Max is the longest wait.
	Max time.Duration
	// Multiplier is what each wait is longer by than the one before, at least 1.
	Multiplier float64
	// Jitter is how far a wait is off at random, as a share of it, up to 1.
	// Negative: none.
	Jitter float64
	// Attempts is how many attempts an event has before its lane is stuck.
	Attempts int
	// Never makes the lane stuck at the first failure. The other fields have to
	// be zero then.
	Never bool
}

func (r Retry) check() error {
	switch {
	case r.Never && r != (Retry{Never: true}):
		return errors.New("a policy that is Never says nothing else")
	case r.Initial < 0 || r.Max < 0:
		return errors.New("Initial and Max must not be negative")
	case r.Initial > 0 && r.Max > 0 && r.Max < r.Initial:
		return fmt.Errorf("Max is %s, less than Initial, which is %s", r.Max, r.Initial)
	case r.Multiplier != 0 && !(r.Multiplier >= 1 && r.Multiplier <= 1000):
		return fmt.Errorf("Multiplier is %g, but must be from 1 to 1000", r.Multiplier)
	case !(r.Jitter <= 1):
		return fmt.Errorf("Jitter is %g, but must be 1 at most", r.Jitter)
	case r.Attempts < 0:
		return fmt.Errorf("Attempts is %d, but must not be negative", r.Attempts)
	}
	return nil
}
