package kafka_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/IBM/sarama"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/inboxd/inboxd/inbox/kafka"
	"github.com/inboxd/inboxd/internal/broker"
)

func TestInline(t *testing.T) {
	t.Parallel()
	_, w := fake(t, broker.Config{})
	inlineSuite(t, newInlineWorld(t, w))
}

// inlineSuite is what an Inline must do on any cluster.
func inlineSuite(t *testing.T, w inlineWorld) {
	for name, test := range map[string]struct {
		partitions int32
		run        func(*desk)
	}{
		"in order and once":             {3, inlineInOrderAndOnce},
		"crash between commit and mark": {2, inlineCrash},
		"sent again":                    {2, inlineSentAgain},
		"rebalance":                     {4, inlineRebalance},
		"two groups at once":            {2, inlineTwoAtOnce},
		"failing handler":               {2, inlineFailing},
		"panic":                         {1, inlinePanic},
		"poison":                        {1, inlinePoison},
		"poison without an id":          {1, inlinePoisonWithoutID},
		"poison that fails":             {1, inlinePoisonFails},
		"outage":                        {1, inlineOutage},
		"slow handler":                  {2, inlineSlow},
		"slow and steady handler":       {2, inlineSteady},
		"stop waits":                    {1, inlineStopWaits},
		"stop cuts short":               {1, inlineStopCutsShort},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test.run(newDesk(t, w, test.partitions))
		})
	}
}

func inlineInOrderAndOnce(d *desk) {
	for p := range int32(3) {
		d.send(p, 300, fmt.Sprint("v", p))
	}
	m := d.join(d.handler(d.config()), true)
	d.awaitEffects(900)
	for p := range int32(3) {
		d.awaitCommit(d.topic, p, 300)
	}
	m.stop()
	d.once(900)
}

// Marks that were never committed bring everything again, to a consumer that
// writes through another driver.
func inlineCrash(d *desk) {
	d.send(0, 100, "v")
	d.send(1, 100, "w")
	crashing := d.join(d.handler(d.config()), false)
	d.awaitEffects(200)
	crashing.stop()
	if got, _ := d.committed(d.topic, 0); got != -1 {
		d.Fatalf("offset %d is committed", got)
	}
	d.send(0, 10, "x")
	next := d.join(d.handlerSQL(), true)
	d.awaitEffects(210)
	d.awaitCommit(d.topic, 0, 110)
	d.awaitCommit(d.topic, 1, 100)
	next.stop()
	d.once(210)
}

// A producer that sends everything twice.
func inlineSentAgain(d *desk) {
	for range 2 {
		d.send(0, 50, "v")
		d.send(1, 50, "w")
	}
	d.join(d.handlerSQL(), true)
	d.awaitCommit(d.topic, 0, 100)
	d.awaitCommit(d.topic, 1, 100)
	d.once(100)
}

// Members come and go while messages are handled.
func inlineRebalance(d *desk) {
	const n = 400
	for p := range int32(4) {
		d.send(p, n/2, fmt.Sprint("v", p))
	}
	stays := d.join(d.handler(d.config()), true)
	stays.awaitClaims(4)
	for range 2 {
		second, third := d.join(d.handlerSQL(), true), d.join(d.handler(d.config()), false)
		d.eventually("each member has partitions", func() bool {
			return second.claims.Load() > 0 && third.claims.Load() > 0 && stays.claims.Load() < 3
		})
		second.stop()
		third.stop()
		stays.awaitClaims(4)
	}
	for p := range int32(4) {
		d.send(p, n/2, fmt.Sprint("w", p))
	}
	d.awaitEffects(4 * n)
	for p := range int32(4) {
		d.awaitCommit(d.topic, p, n)
	}
	d.once(4 * n)
}

// Two consumers that know nothing of each other handle the same messages as one:
// of each message the one that comes second waits for the first.
func inlineTwoAtOnce(d *desk) {
	d.send(0, 300, "v")
	d.send(1, 300, "w")
	first := d.join(d.handler(d.config()), true)
	other := *d
	bench := *d.bench
	other.bench, bench.group = &bench, d.group+".other"
	second := other.join(other.handlerSQL(), true)
	for _, one := range []*desk{d, &other} {
		one.awaitCommit(d.topic, 0, 300)
		one.awaitCommit(d.topic, 1, 300)
	}
	first.stop()
	second.stop()
	d.once(600)
}

var errInline = errors.New("it does not work")

// A message that fails is tried again without leaving the partition, which waits
// behind it, alone. Nothing of a failed attempt remains.
func inlineFailing(d *desk) {
	d.send(0, 10, "v")
	var attempts atomic.Int32
	var heal atomic.Bool
	cfg := d.config()
	cfg.Handle = func(ctx context.Context, tx pgx.Tx, m *sarama.ConsumerMessage) error {
		if err := d.effect(ctx, tx, m); err != nil {
			return err
		}
		if string(m.Value) == "v-4" && !heal.Load() {
			attempts.Add(1)
			return errInline
		}
		return nil
	}
	m := d.join(d.handler(cfg), true)
	d.eventually("it was tried many times", func() bool { return attempts.Load() > 30 })
	d.send(1, 10, "w")
	d.awaitCommit(d.topic, 1, 10)
	d.awaitCommit(d.topic, 0, 4)
	d.once(14)
	heal.Store(true)
	d.awaitCommit(d.topic, 0, 10)
	d.once(20)
	if got := m.sessions.Load(); got != 1 {
		d.Errorf("%d sessions", got)
	}
	log := d.log.String()
	if got := strings.Count(log, "A message cannot be handled"); got != 1 {
		d.Errorf("the log says %d times that a message cannot be handled:\n%s", got, log)
	}
	if !strings.Contains(log, "offset=4") || !strings.Contains(log, errInline.Error()) || !strings.Contains(log, "after all") {
		d.Errorf("the log:\n%s", log)
	}
}

func inlinePanic(d *desk) {
	d.send(0, 3, "v")
	var panics atomic.Int32
	cfg := d.config()
	cfg.Handle = func(ctx context.Context, tx pgx.Tx, m *sarama.ConsumerMessage) error {
		err := d.effect(ctx, tx, m)
		if string(m.Value) == "v-1" && panics.Add(1) < 3 {
			panic("it broke")
		}
		return err
	}
	d.join(d.handler(cfg), true)
	d.awaitCommit(d.topic, 0, 3)
	d.once(3)
	if !strings.Contains(d.log.String(), "panic: it broke") {
		d.Errorf("the log:\n%s", d.log)
	}
}

// poisoned has a poison function write what is passed over.
func (d *desk) poisoned(cfg *kafka.InlineConfig[pgx.Tx]) {
	d.Helper()
	_, err := d.world.pool.Exec(d.ctx, d.in(`create table {schema}.poison (id text, cause text)`))
	d.check(err)
	cfg.Attempts = 3
	cfg.Poison = func(ctx context.Context, tx pgx.Tx, m *sarama.ConsumerMessage, cause error) error {
		_, err := tx.Exec(ctx, d.in(`insert into {schema}.poison values ($1, $2)`), string(m.Value), cause.Error())
		return err
	}
}

func (d *desk) poison(want string) {
	d.Helper()
	if got := ask[string](d, `select coalesce(string_agg(id || ': ' || cause, ', '), '') from {schema}.poison`); got != want {
		d.Errorf("passed over: %q, want %q", got, want)
	}
}

// A message that goes on failing is passed over, for good.
func inlinePoison(d *desk) {
	d.send(0, 5, "v")
	var attempts atomic.Int32
	cfg := d.config()
	cfg.Handle = func(ctx context.Context, tx pgx.Tx, m *sarama.ConsumerMessage) error {
		err := d.effect(ctx, tx, m)
		if string(m.Value) == "v-2" {
			attempts.Add(1)
			return errInline
		}
		return err
	}
	d.poisoned(&cfg)
	for _, commits := range []bool{false, true} {
		m := d.join(d.handler(cfg), commits)
		d.awaitEffects(4)
		if commits {
			d.awaitCommit(d.topic, 0, 5)
		}
		m.stop()
	}
	if got := attempts.Load(); got != 3 {
		d.Errorf("%d attempts", got)
	}
	d.poison("v-2: it does not work")
	if got := ask[string](d, `select string_agg(id, ' ' order by n) from {schema}.effects`); got != "v-0 v-1 v-3 v-4" {
		d.Errorf("effects: %s", got)
	}
	if !strings.Contains(d.log.String(), "passed over") {
		d.Errorf("the log:\n%s", d.log)
	}
}

// What has no id, or none that can be stored, cannot be claimed.
func inlinePoisonWithoutID(d *desk) {
	d.send(0, 4, "v")
	cfg := d.config()
	cfg.ID = func(m *sarama.ConsumerMessage) (string, error) {
		switch string(m.Value) {
		case "v-1":
			return "", errInline
		case "v-2":
			return "a\x00b", nil
		}
		return valueID(m)
	}
	d.poisoned(&cfg)
	d.join(d.handler(cfg), true)
	d.awaitCommit(d.topic, 0, 4)
	d.once(2)
	d.poison(`v-1: find the id of the message: it does not work, v-2: claim event "a\x00b" for consumer "c": event_id holds a NUL byte`)
}

func inlinePoisonFails(d *desk) {
	d.send(0, 3, "v")
	var asked atomic.Int32
	cfg := d.config()
	cfg.Handle = func(ctx context.Context, tx pgx.Tx, m *sarama.ConsumerMessage) error {
		if string(m.Value) == "v-1" && asked.Load() < 4 {
			return errInline
		}
		return d.effect(ctx, tx, m)
	}
	cfg.Poison = func(ctx context.Context, tx pgx.Tx, m *sarama.ConsumerMessage, cause error) error {
		if asked.Add(1); !errors.Is(cause, errInline) {
			d.Errorf("the cause is %v", cause)
		}
		return errors.Join(d.effect(ctx, tx, m), errInline)
	}
	cfg.Attempts = 2
	d.join(d.handler(cfg), true)
	d.awaitCommit(d.topic, 0, 3)
	d.once(3)
	if got := asked.Load(); got != 4 {
		d.Errorf("the poison function was asked %d times", got)
	}
}

// beginner fails to begin for a while.
type beginner struct {
	fails atomic.Int32
	begin func(context.Context) (pgx.Tx, error)
}

func (b *beginner) Begin(ctx context.Context) (pgx.Tx, error) {
	if n := b.fails.Add(-1); n >= 0 {
		return nil, &pgconn.PgError{Code: []string{"57P01", "53300", "42P01"}[n%3]}
	}
	return b.begin(ctx)
}

// What is the database's fault counts against no message: it cannot begin, the
// handler loses its connection, or it meets another transaction.
func inlineOutage(d *desk) {
	d.send(0, 5, "v")
	var lost atomic.Int32
	pool := &beginner{begin: d.world.pool.Begin}
	pool.fails.Store(12)
	cfg := d.config()
	cfg.Handle = func(ctx context.Context, tx pgx.Tx, m *sarama.ConsumerMessage) error {
		if err := d.effect(ctx, tx, m); err != nil {
			return err
		}
		switch n := lost.Add(1); {
		case n <= 5:
			return fmt.Errorf("wrapped: %w", &pgconn.PgError{Code: "40001"})
		case n <= 10:
			_, err := tx.Exec(ctx, `select pg_terminate_backend(pg_backend_pid())`)
			return err
		}
		return nil
	}
	d.poisoned(&cfg)
	h, err := kafka.NewInline(pool, cfg)
	d.check(err)
	d.join(h, true)
	d.awaitCommit(d.topic, 0, 5)
	d.once(5)
	d.poison("")
}

// A handler that takes longer than the session holds up neither the heartbeats nor
// the other partition, even with more messages waiting than there is room for.
func inlineSlow(d *desk) {
	d.send(0, 3000, "v")
	d.send(1, 3000, "w")
	release := make(chan struct{})
	cfg := d.config()
	cfg.BufferBytes = 2000
	cfg.Handle = func(ctx context.Context, tx pgx.Tx, m *sarama.ConsumerMessage) error {
		if m.Partition == 0 {
			select {
			case <-release:
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
		return d.effect(ctx, tx, m)
	}
	m := d.join(d.handler(cfg), true)
	m.awaitClaims(2)
	longer := time.After(2 * inlineSession) // it is the time that is tested
	d.awaitCommit(d.topic, 1, 3000)
	<-longer
	d.send(1, 10, "x")
	d.awaitCommit(d.topic, 1, 3010)
	close(release)
	d.awaitCommit(d.topic, 0, 3000)
	d.once(6010)
	if got := m.sessions.Load(); got != 1 {
		d.Errorf("%d sessions", got)
	}
}

// A handler that goes slowly from one message to the next holds up the other
// partition of its broker no more than one that stands still.
func inlineSteady(d *desk) {
	const n = 3000
	d.send(0, n, "v")
	release := make(chan struct{})
	cfg := d.config()
	cfg.BufferBytes = 2000
	cfg.Handle = func(ctx context.Context, tx pgx.Tx, m *sarama.ConsumerMessage) error {
		if m.Partition == 0 {
			select {
			case <-release:
			case <-time.After(10 * time.Millisecond): // its slowness is what is tested
			}
		}
		return d.effect(ctx, tx, m)
	}
	d.join(d.handler(cfg), true)
	d.awaitEffects(5)
	for i := range 5 {
		d.send(1, 10, fmt.Sprint("w", i))
		d.awaitCommit(d.topic, 1, int64(10*(i+1)))
	}
	if got := ask[int](d, `select count(*) from {schema}.effects where part = 0`); got == n {
		d.Error("the slow partition was done before the other")
	}
	close(release)
	d.awaitCommit(d.topic, 0, n)
	d.once(n + 50)
}

// entered is a handler that says so and waits.
func (d *desk) entered(cfg *kafka.InlineConfig[pgx.Tx], wait func(ctx context.Context) error) <-chan struct{} {
	entered := make(chan struct{})
	var calls atomic.Int32
	cfg.Handle = func(ctx context.Context, tx pgx.Tx, m *sarama.ConsumerMessage) error {
		err := d.effect(ctx, tx, m)
		if calls.Add(1) == 1 {
			close(entered)
			err = errors.Join(err, wait(ctx))
		}
		return err
	}
	return entered
}

// What runs when the session ends may go on, commits, and is marked; what waits
// behind it is left to the next session.
func inlineStopWaits(d *desk) {
	d.send(0, 5, "v")
	release := make(chan struct{})
	cfg := d.config()
	cfg.Grace = time.Minute
	entered := d.entered(&cfg, func(ctx context.Context) error { <-release; return ctx.Err() })
	m := d.join(d.handler(cfg), true)
	<-entered
	m.cancel()
	select {
	case <-m.ended:
		d.Error("the member left while its handler ran")
	case <-time.After(100 * time.Millisecond):
	}
	close(release)
	<-m.ended
	d.awaitCommit(d.topic, 0, 1)
	d.once(1)
	d.join(d.handler(d.config()), true)
	d.awaitCommit(d.topic, 0, 5)
	d.once(5)
}

func inlineStopCutsShort(d *desk) {
	d.send(0, 5, "v")
	cfg := d.config()
	cfg.Grace = 50 * time.Millisecond
	entered := d.entered(&cfg, func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() })
	m := d.join(d.handler(cfg), true)
	<-entered
	m.stop()
	d.once(0)
	if strings.Contains(d.log.String(), "cannot be handled") {
		d.Errorf("a stop was reported as a failure:\n%s", d.log)
	}
	d.join(d.handler(d.config()), true)
	d.awaitCommit(d.topic, 0, 5)
	d.once(5)
}
