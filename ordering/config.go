package ordering

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/inboxd/inboxd/handlers"
	"github.com/inboxd/inboxd/inbox"
)

// Config says how lanes are run. The zero Config has all defaults.
type Config struct {
	// Schema is where the tables are. Default "inboxd".
	Schema string
	// Workers is how many transactions run lanes at once in this process, and
	// so how many connections they take, at most. Default 16.
	Workers int
	// Batch is how many events of one lane share a transaction, at most; 1 is a
	// transaction an event. Default 16.
	Batch int
	// Group is how many lanes share a transaction, at most, while their
	// handlers are quick and there is a backlog; 1 is a transaction a lane.
	// Default 16; it is 1 when Batch is 1.
	Group int
	// FlushEach has each transaction wait until it is flushed to disk before the
	// next one of its lane begins. Otherwise queued handlers of a lane with a long
	// queue run in several transactions that are flushed together: others may
	// then see an effect some milliseconds before it would survive a crash of
	// the server, after which it is made again.
	FlushEach bool
	// HandlerTimeout is the longest that one call of a handler, or one
	// statement of it, may take. Default 30 s.
	HandlerTimeout time.Duration
	// Lease is how long a process may be silent before others end its sessions
	// and run its lanes. Default 10 s, at least 3 s.
	Lease time.Duration
	// Drain is how long Run waits, after its context has ended, for what runs.
	// Default 30 s. Negative: it does not wait.
	Drain time.Duration
	// Retry says when a failed head runs again, unless its type has a policy of
	// its own.
	Retry Retry
	// Policies are those of event types, before what they were registered with.
	// What a policy leaves at zero is as in Retry.
	Policies map[string]handlers.Retry
	// Breaker says when an event type is paused because a dependency is down.
	Breaker Breaker
	// Sweep is how often the inbox is searched for what notifications missed.
	// Default 1 s.
	Sweep time.Duration
	// UntilIdle has Run return when no lane can run any more: none is ready,
	// running or backing off, in any process.
	UntilIdle bool
	// Name says which process this is, for people. Default host and process id.
	Name string
	// Version says which version of the handlers this process has; it is kept
	// with each failure. Default: the version or the commit that the program was
	// built from, if Go knows it.
	Version string
	// Log hears of failures, stuck lanes, outages and take-overs; never of
	// payloads. Default: nobody.
	Log *slog.Logger
	// Hooks hear of what happens; see StartedHook and the others.
	Hooks []any
	// Connect opens a connection for LISTEN, apart from the pool and to the same
	// database. Default: with the pool's own configuration. Set it when the pool
	// leads to a pooler in transaction mode, which loses notifications.
	Connect ConnectFunc
}

func (c Config) withDefaults() Config {
	orElse(&c.Schema, "inboxd")
	orElse(&c.Workers, 16)
	orElse(&c.Batch, 16)
	if c.Batch == 1 {
		orElse(&c.Group, 1)
	}
	orElse(&c.Group, 16)
	orElse(&c.HandlerTimeout, 30*time.Second)
	orElse(&c.Lease, 10*time.Second)
	orElse(&c.Drain, 30*time.Second)
	orElse(&c.Sweep, time.Second)
	orElse(&c.Breaker.Lanes, 5)
	orElse(&c.Breaker.Probe, time.Second)
	orElse(&c.Breaker.Max, 30*time.Second)
	c.Retry = c.Retry.withDefaults()
	orElse(&c.Name, processName())
	orElse(&c.Version, buildVersion())
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return c
}

func orElse[T comparable](v *T, otherwise T) {
	var zero T
	if *v == zero {
		*v = otherwise
	}
}

func (c Config) validate() error {
	var errs []error
	positive := func(name string, v int) {
		if v < 1 {
			errs = append(errs, fmt.Errorf("%s is %d, but must be at least 1", name, v))
		}
	}
	positive("Workers", c.Workers)
	positive("Batch", c.Batch)
	positive("Group", c.Group)
	atLeast := func(name string, v, least time.Duration) {
		if v < least {
			errs = append(errs, fmt.Errorf("%s is %s, but must be at least %s", name, v, least))
		}
	}
	atLeast("HandlerTimeout", c.HandlerTimeout, time.Millisecond)
	atLeast("Lease", c.Lease, 3*time.Second)
	atLeast("Sweep", c.Sweep, 10*time.Millisecond)
	atLeast("Breaker.Probe", c.Breaker.Probe, 10*time.Millisecond)
	atLeast("Breaker.Max", c.Breaker.Max, c.Breaker.Probe)
	if err := inbox.NewStore(nil, c.Schema).Err(); err != nil { // the same names for both
		errs = append(errs, err)
	}
	return errors.Join(append(errs, c.Retry.check("Retry"))...)
}
