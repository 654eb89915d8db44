//go:build linux

package main

import (
	"context"
	"errors"
	"sync"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/inboxd/inboxd/internal/postgres"
)

// strike is a fault that happened.
type strike struct {
	kind, target string
	limit        time.Duration // for lanes to go on, from ref

	at, until time.Time
	ref       time.Time // what recovery is counted from: the fault, or the end of an outage

	looked                      bool // it is known what was in flight
	processed, pending, running int
	skipped                     string // why it did not happen

	recovery, gap, ingest time.Duration
	slowest               string // the event that waited longest
}

// inFlight reports whether work was under way when the fault came.
func (s *strike) inFlight() bool {
	return s.looked && s.processed > 0 && s.pending > 0 && s.running > 0
}

// faultLog is what happened.
type faultLog struct {
	mu      sync.Mutex
	strikes []*strike
}

func (l *faultLog) add(s *strike) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.strikes = append(l.strikes, s)
}

// heldLog is which aggregates had to wait for the torture's own locks, and when.
type heldLog struct {
	mu    sync.Mutex
	spans map[string][]span
}

func (l *heldLog) add(aggregates []string, s span) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.spans == nil {
		l.spans = map[string][]span{}
	}
	for _, a := range aggregates {
		l.spans[a] = append(l.spans[a], s)
	}
}

func (l *heldLog) overlaps(aggregate string, from, to time.Time) bool {
	for _, s := range l.spans[aggregate] {
		if s.from.Before(to) && s.to.After(from) {
			return true
		}
	}
	return false
}

// wreak has the planned faults happen and returns when all are over. When limited
// ends, those that last are lifted.
func (w *world) wreak(ctx, limited context.Context) {
	var going sync.WaitGroup
	defer going.Wait()
	for _, p := range w.opts.plan() {
		if !sleep(limited, time.Until(w.began.Add(p.at))) {
			return
		}
		going.Go(func() { w.strike(ctx, limited, p) })
	}
}

// strike has one fault happen.
func (w *world) strike(ctx, limited context.Context, p planned) {
	s := &strike{kind: p.kind, limit: 5 * time.Second}
	defer w.faults.add(s)
	do := w.fault(p, s)
	if do == nil {
		w.say("%-18s not now: %s", s.kind, s.skipped)
		return
	}
	w.aim(limited, s)
	s.at = time.Now()
	s.ref = s.at
	do(ctx, limited)
	s.until = time.Now()
	w.say("%-18s %-12s %6s  (before: %d/s, %d pending, %d running)", s.kind, s.target,
		s.until.Sub(s.at).Round(10*time.Millisecond), s.processed, s.pending, s.running)
}

// aim waits a little for a moment in which work is in flight.
func (w *world) aim(ctx context.Context, s *strike) {
	const inFlight = `select
		(select count(*) from effects where at > clock_timestamp() - interval '1 second'),
		(select coalesce(sum(a.last_position - l.cursor), 0) from shop.lanes l join shop.aggregates a using (lane_id)
			where a.last_position > l.cursor and l.state = 'ready')
		+ (select coalesce(sum(a.last_position - l.cursor), 0) from team.lanes l join team.aggregates a using (lane_id)
			where a.last_position > l.cursor and l.state = 'ready'),
		(select count(*) from pg_stat_activity where application_name like $1 and xact_start is not null)`
	pattern := tortured + "%"
	if s.target != "" {
		pattern = tortured + s.target + "/%"
	}
	for range 40 {
		limited, cancel := context.WithTimeout(ctx, time.Second)
		err := w.pool.QueryRow(limited, inFlight, pattern).Scan(&s.processed, &s.pending, &s.running)
		cancel()
		s.looked = err == nil
		if s.inFlight() || !sleep(ctx, 25*time.Millisecond) {
			return
		}
	}
}

type action func(ctx, limited context.Context)

// fault makes the action of a planned fault; nil: it cannot happen now.
func (w *world) fault(p planned, s *strike) action {
	switch p.kind {
	case "kill", "freeze", "blink", "term", "leave":
		slot := w.freeSlot(p)
		if slot == nil {
			s.skipped = "every process has a fault already"
			return nil
		}
		s.target = slot.name
		return w.processFault(p, s, slot)
	case "join":
		return w.join(p, s)
	case "kill family":
		return w.killFamily(p, s)
	case "broker kill", "broker restart", "broker freeze":
		return w.brokerFault(p, s)
	case "row locks":
		return w.rowLocks(p, s)
	case "long snapshot":
		return w.snapshot(p)
	case "operator retry":
		return w.operator(p)
	default:
		s.limit = 15 * time.Second
		return w.postgresFault(p, s)
	}
}

// freeSlot takes a slot that has no fault and a process; whoever gets it unlocks
// busy.
func (w *world) freeSlot(p planned) *slot {
	all := w.slots()
	for i := range all {
		s := all[(p.pick+i)%len(all)]
		if !s.busy.TryLock() {
			continue
		}
		if s.process() != nil {
			return s
		}
		s.busy.Unlock()
	}
	return nil
}

func (w *world) processFault(p planned, s *strike, slot *slot) action {
	away := between(300*time.Millisecond, 5*time.Second, p.a)
	return func(_, limited context.Context) {
		defer slot.busy.Unlock()
		switch p.kind {
		case "kill":
			slot.kill()
		case "freeze", "blink":
			s.limit = lease + 5*time.Second
			frozen := between(lease+time.Second, lease+4*time.Second, p.a)
			if p.kind == "blink" {
				frozen = between(300*time.Millisecond, lease-time.Second, p.a)
			}
			if it := slot.process(); it != nil {
				it.signal(syscall.SIGSTOP)
				sleep(limited, frozen)
				it.signal(syscall.SIGCONT)
			}
			if slot.process() != nil {
				return
			}
			away = 0 // its handler ended it just before
		case "term", "leave":
			w.mustStop(slot)
			if p.kind == "leave" {
				away = between(4*time.Second, 9*time.Second, p.a)
			}
		}
		sleep(limited, away)
		slot.mustStart()
	}
}

// stopLimit is how long a stop may take: the drain, and leaving the group.
const stopLimit = drainTime + 10*time.Second

func (w *world) mustStop(s *slot) time.Duration {
	took, err := s.stop(stopLimit)
	if err != nil {
		w.findings.add("stop", "%v", err)
	}
	return took
}

func (w *world) join(p planned, s *strike) action {
	slot := w.families()[p.pick%2].extra
	s.kind = "join and leave"
	if !slot.busy.TryLock() {
		s.skipped = "it has joined already"
		return nil
	}
	return func(_, limited context.Context) {
		defer slot.busy.Unlock()
		slot.mustStart()
		sleep(limited, between(5*time.Second, 15*time.Second, p.a))
		w.mustStop(slot)
	}
}

// killFamily kills all processes of a family that have no fault; the others of
// them are frozen or away.
func (w *world) killFamily(p planned, s *strike) action {
	f := w.families()[p.pick%2]
	var slots []*slot
	for _, slot := range f.slots {
		if slot.busy.TryLock() {
			slots = append(slots, slot)
		}
	}
	if len(slots) == 0 {
		s.skipped = "every process has a fault already"
		return nil
	}
	s.limit = 10 * time.Second // counted from the restart: they start anew, with nothing known
	return func(_, limited context.Context) {
		for _, slot := range slots {
			slot.kill()
		}
		sleep(limited, between(100*time.Millisecond, 2*time.Second, p.a))
		for _, slot := range slots {
			slot.mustStart()
			slot.busy.Unlock()
		}
		s.ref = time.Now()
	}
}

func (w *world) brokerFault(p planned, s *strike) action {
	if !w.brokerMu.TryLock() {
		s.skipped = "the broker has a fault already"
		return nil
	}
	return func(ctx, limited context.Context) {
		defer w.brokerMu.Unlock()
		if err := w.troubleBroker(ctx, limited, p); err != nil && ctx.Err() == nil {
			w.findings.add("torture", "%s: %v", p.kind, err)
		}
	}
}

func (w *world) troubleBroker(ctx, limited context.Context, p planned) error {
	if p.kind == "broker freeze" {
		err := w.broker.freeze(ctx)
		sleep(limited, between(time.Second, 8*time.Second, p.a))
		return errors.Join(err, w.broker.thaw(ctx))
	}
	end := w.broker.kill
	if p.kind == "broker restart" {
		end = w.broker.stop
	}
	err := end(ctx)
	sleep(limited, between(100*time.Millisecond, 4*time.Second, p.a))
	return errors.Join(err, w.broker.start(ctx))
}

// rowLocks has a foreign session hold the rows that handlers write to.
func (w *world) rowLocks(p planned, _ *strike) action {
	all := w.stream.names()
	var names []string
	for i := range 1 + p.pick%5 { // one of the busiest, and others
		names = append(names, all[(p.pick>>(3*i))%min(len(all), 10<<i)])
	}
	return func(ctx, limited context.Context) {
		began := time.Now()
		_ = pgx.BeginFunc(ctx, w.pool, func(tx pgx.Tx) error {
			_, err := tx.Exec(ctx, `select from balances where aggregate_id = any($1) order by aggregate_id for update`, names)
			if err == nil {
				sleep(limited, between(time.Second, 5*time.Second, p.a))
			}
			return err // a restart may end it early
		})
		w.held.add(names, span{began, time.Now()})
	}
}

// snapshot keeps a snapshot open, so that no dead row can be removed.
func (w *world) snapshot(p planned) action {
	return func(ctx, limited context.Context) {
		_ = pgx.BeginTxFunc(ctx, w.pool, pgx.TxOptions{IsoLevel: pgx.RepeatableRead}, func(tx pgx.Tx) error {
			_, err := tx.Exec(ctx, `select count(*) from effects`)
			if err == nil {
				sleep(limited, between(10*time.Second, 40*time.Second, p.a))
			}
			return err // a restart may end it early
		})
	}
}

// operator retries a lane that is stuck for good.
func (w *world) operator(p planned) action {
	return func(ctx, _ context.Context) {
		f := w.families()[p.pick%2]
		if stuck := w.stuckForGood(ctx, f); len(stuck) > 0 {
			_ = w.retry(ctx, f, stuck[p.pick%len(stuck)]) // it may have moved meanwhile
		}
	}
}

func (w *world) postgresFault(p planned, s *strike) action {
	modes := map[string]postgres.Mode{
		"postgres immediate": postgres.Immediate, "postgres fast": postgres.Clean, "postgres crash": postgres.Crash,
	}
	if !w.pgMu.TryLock() {
		s.skipped = "the server has a fault already"
		return nil
	}
	return func(ctx, limited context.Context) {
		defer w.pgMu.Unlock()
		var err error
		switch p.kind {
		case "postgres pause":
			if err = w.pg.Pause(); err == nil {
				sleep(limited, between(time.Second, 5*time.Second, p.a))
				err = w.pg.Resume()
			}
		case "sessions all", "sessions some":
			share := 1.0
			if p.kind == "sessions some" {
				share = 0.1 + p.a/2
			}
			_, _ = w.pool.Exec(ctx, `select pg_terminate_backend(pid) from pg_stat_activity
				where application_name like $1 and random() < $2`, tortured+"%", share) // it may be ended itself
		default:
			w.keepServerLog()
			mode := modes[p.kind]
			if err = w.pg.Shutdown(ctx, mode); err == nil {
				sleep(limited, between(0, 3*time.Second, p.a))
				err = w.pg.Restart(ctx, mode)
			}
		}
		if err != nil {
			w.findings.add("torture", "%s: %v", p.kind, err)
		}
		s.ref = time.Now()
		if p.kind == "sessions all" || p.kind == "sessions some" {
			s.ref = s.at
		}
	}
}
