package inboxtest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/inboxd/inboxd/handlers"
	"github.com/inboxd/inboxd/ordering"
)

// Run runs lanes with a real ordering.Processor until no lane can run any more:
// every event is processed or skipped, or waits behind a lane that is stuck,
// paused, or waiting for its next number. Backoffs take no time: when nothing
// else can run, the clock jumps to the end of the next one, and the same way for
// all others.
//
// A handler that answers Pause or Later again and again is called a few times, and
// its lane is left waiting: a later Run goes on from there. Limits such as
// handlers.RateLimit answer Later by the real clock, which does not jump: Run waits
// for those whose time comes within a second. A registry for tests is better made
// without them.
func (k *Kit) Run(reg *handlers.Registry) {
	k.t.Helper()
	k.held.forget()
	k.run(reg, true, k.options.Config)
}

// RunDue runs lanes like Run, without jumping: lanes that back off after a failure
// are left in their backoff, however long the test takes. Advance makes them due.
// What a handler puts off with Later comes due by the real clock as well.
func (k *Kit) RunDue(reg *handlers.Registry) {
	k.t.Helper()
	config := k.options.Config
	config.Hooks = append(slices.Clone(config.Hooks), holdHook{k})
	k.hold(farAway)
	k.run(reg, false, config)
	k.hold(0)
}

// Advance has d pass for all backoffs. It moves what is due in the database, and
// no clock: times that are read from a clock, received_at among them, stay true.
func (k *Kit) Advance(d time.Duration) {
	k.t.Helper()
	if d < 0 {
		k.t.Fatalf("Advance was given %s; time does not run backwards", d)
	}
	ctx, cancel := k.context()
	defer cancel()
	if _, err := k.jump(ctx, d); err != nil {
		k.t.Fatalf("%v", err)
	}
	k.held.pass(d)
}

// Elapsed is the time that Run and Advance have let pass.
func (k *Kit) Elapsed() time.Duration { return k.elapsed }

func (k *Kit) run(reg *handlers.Registry, jump bool, config ordering.Config) {
	k.t.Helper()
	p, err := k.start(reg, config)
	if err != nil {
		k.t.Fatalf("%v", err)
	}
	err = k.untilQuiet(jump, p)
	if err = errors.Join(err, p.stop()); err != nil {
		k.t.Fatalf("run lanes: %v\n%s", err, k.History())
	}
}

// process is a processor at work.
type process struct {
	*ordering.Processor
	types  []string // that it has handlers for
	cancel context.CancelFunc
	done   chan struct{}
	err    error // once done is closed
}

// probeEvery is how soon a processor notices that a paused type is due for a
// probe, after the clock has jumped there.
const probeEvery = 10 * time.Millisecond

// start starts a processor, which runs until it is stopped.
func (k *Kit) start(reg *handlers.Registry, config ordering.Config) (*process, error) {
	config.Breaker.Probe = probeEvery
	p, err := ordering.New(k.pool, reg, config)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	r := &process{Processor: p, types: reg.Types(), cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(r.done)
		r.err = p.Run(ctx)
	}()
	return r, nil
}

// stop stops the processor and waits for it.
func (p *process) stop() error {
	p.cancel()
	<-p.done
	return p.err
}

// pollEvery is how often the database is asked whether all is quiet.
const pollEvery = 3 * time.Millisecond

// maxIdleJumps is how often the clock jumps without any event being processed or
// losing an attempt, before Run has seen enough: a dependency stays down.
const maxIdleJumps = 3

// limitsTake is how long a limit that goes by the real clock may keep all lanes
// waiting before Run has seen enough.
const limitsTake = time.Second

// untilQuiet waits until no lane can run, or until one of the processes ends.
func (k *Kit) untilQuiet(jump bool, processes ...*process) error {
	ctx, cancel := context.WithTimeout(context.Background(), k.options.Timeout)
	defer cancel()
	ticker := time.NewTicker(pollEvery)
	defer ticker.Stop()
	idle, last, moved := 0, progress{}, time.Now()
	for {
		select {
		case <-ctx.Done():
		case <-processes[0].done: // it was made to end
			return nil
		case <-ticker.C:
		}
		l, err := k.look(ctx, processes[0].types)
		switch {
		case ctx.Err() != nil:
			return fmt.Errorf("lanes still run after %s", k.options.Timeout)
		case err != nil:
			return err
		case !l.quiet:
			continue
		case !jump || l.next == nil:
			return nil
		}
		if idle++; l.progress != last {
			idle, last, moved = 0, l.progress, time.Now()
		}
		if idle >= maxIdleJumps {
			if !l.backsOff || *l.next > limitsTake || time.Since(moved) > limitsTake {
				return nil
			}
			continue
		}
		due, err := k.jump(ctx, max(*l.next, 0)+time.Millisecond)
		if err != nil {
			return err
		}
		for _, p := range processes {
			p.Wake(due)
		}
	}
}

// progress grows with every event that is processed and every attempt that is
// lost.
type progress struct{ done, failed int64 }

type look struct {
	quiet    bool
	next     *time.Duration // to the end of the next backoff or pause; nil: nobody waits for one
	backsOff bool           // a lane is in a backoff
	progress
}

// lookSQL reads all lanes: a test has few. Lanes whose event type is paused are
// given back by a heartbeat once it is not.
const lookSQL = `
select not exists (
		select from {schema}.lanes l
		join {schema}.aggregates a on a.lane_id = l.lane_id
		where a.last_position > l.cursor
			and (l.state = 'ready' or l.state = 'backoff' and l.next_attempt_at <= clock_timestamp()))
	and not exists (
		select from {schema}.breakers b where b.event_type = any($1) and b.next_probe_at <= clock_timestamp())
	and not exists (
		select from {schema}.lanes l
		where l.paused_type is not null and l.paused_type not in (select b.event_type from {schema}.breakers b)),
	least((select min(l.next_attempt_at) from {schema}.lanes l where l.state = 'backoff'),
		(select min(b.next_probe_at) from {schema}.breakers b where b.event_type = any($1))) - clock_timestamp(),
	exists (select from {schema}.lanes l where l.state = 'backoff'),
	(select coalesce(sum(l.cursor), 0)::bigint from {schema}.lanes l),
	(select count(*) from {schema}.failures)`

func (k *Kit) look(ctx context.Context, types []string) (look, error) {
	var l look
	err := k.side.QueryRow(ctx, k.in(lookSQL), types).Scan(&l.quiet, &l.next, &l.backsOff, &l.done, &l.failed)
	if err != nil {
		return l, fmt.Errorf("look at the lanes: %w", err)
	}
	return l, nil
}

// jumpSQL locks the lanes that back off. Nobody runs those that are not due.
const jumpSQL = `
with probes as (
	update {schema}.breakers set next_probe_at = next_probe_at - $1::interval
)
update {schema}.lanes set next_attempt_at = next_attempt_at - $1::interval
where state = 'backoff'
returning lane_id, next_attempt_at <= clock_timestamp()`

// jump has d pass, and answers the lanes that are due then.
func (k *Kit) jump(ctx context.Context, d time.Duration) ([]int64, error) {
	rows, err := k.side.Query(ctx, k.in(jumpSQL), d)
	if err != nil {
		return nil, fmt.Errorf("advance the clock: %w", err)
	}
	var due []int64
	var lane int64
	var isDue bool
	_, err = pgx.ForEachRow(rows, []any{&lane, &isDue}, func() error {
		if isDue {
			due = append(due, lane)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("advance the clock: %w", err)
	}
	k.elapsed += d
	return due, nil
}
