package bench

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/inboxd/inboxd/internal/config"
	"github.com/inboxd/inboxd/internal/service"
)

// pace is one event each, in W6.
const pace = 10 * time.Millisecond

// latency is W6: 100 events a second through all of serve, embedded broker
// included, each of an aggregate of its own. The time of an event runs from the
// producer's call to the answer to the commit of its effect. It is compared with
// the median time of the handler's statement alone as a transaction, at the same
// pace on one connection.
func latency(ctx context.Context, b *bench) (out []Result, err error) {
	events := min(b.events(500), 1000)
	seen := newCommits()
	s, err := b.newStage(ctx, events, 4)
	if err != nil {
		return nil, err
	}
	defer s.close()
	pool, err := openPool(b.URL, workers+reserve, seen)
	if err != nil {
		return nil, err
	}
	defer pool.Close()
	newLine := func(name string, times float64) *line {
		return &line{scenario: "W6 " + name, events: events, aggregates: events, workers: workers, batch: batch,
			reference: "single commit", goal: goal{value: times, below: true}}
	}
	middle, slowest := newLine("median", 3), newLine("99th percentile", 12)
	v := &serving{s: s, pool: pool, seen: seen, events: events}
	if v.feeder, err = newFeeder(); err != nil {
		return nil, err
	}
	defer v.feeder.close()
	if err := v.start(ctx); err != nil {
		return nil, err
	}
	err = b.each(func(n int, note func(string)) error { return v.round(ctx, n, note, middle, slowest) })
	if err := errors.Join(err, v.stop()); err != nil {
		return nil, err
	}
	b.remark("a single commit took %.2f ms, an event %.2f ms (medians)", 1e3/median(middle.references), 1e3*v.typical())
	return results(middle, slowest), nil
}

// serving is serve, as W6 runs it.
type serving struct {
	s       *stage
	pool    *pgxpool.Pool
	seen    *commits
	feeder  *feeder
	events  int
	numbers int64 // of events so far, for each account
	medians []float64

	cancel context.CancelFunc
	ended  chan error
}

func (v *serving) typical() float64 { return median(v.medians) }

// start starts it and waits until a first event has gone through.
func (v *serving) start(ctx context.Context) error {
	if err := v.feeder.topic("latency"); err != nil {
		return err
	}
	reg, err := v.s.own.registry()
	if err != nil {
		return err
	}
	cfg := config.Default()
	cfg.Database.Schema = v.s.schema
	cfg.Kafka.Brokers, cfg.Kafka.Topics = v.feeder.broker.Addrs(), []string{"latency"}
	svc, err := service.New(service.Options{Config: cfg, Pool: v.pool, Registry: reg, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		return err
	}
	running, cancel := context.WithCancel(context.WithoutCancel(ctx))
	v.cancel, v.ended = cancel, make(chan error, 1)
	go func() { v.ended <- svc.Run(running) }()
	_, err = v.paced(ctx)
	return err
}

// stop stops it.
func (v *serving) stop() error {
	v.cancel()
	return <-v.ended
}

// round measures events, then single commits.
func (v *serving) round(ctx context.Context, n int, note func(string), middle, slowest *line) error {
	note("latency")
	began := time.Now()
	times, err := v.paced(ctx)
	if err != nil {
		return err
	}
	rate := float64(len(times)) / time.Since(began).Seconds()
	violations, err := v.s.own.audit(ctx, v.s.pool, v.s.unaudited(v.numbers*int64(v.events)))
	if err != nil {
		return err
	}
	note("single commits")
	single, err := v.singles(ctx, n)
	if err != nil {
		return err
	}
	v.medians = append(v.medians, median(times))
	for l, figure := range map[*line]float64{middle: median(times), slowest: quantile(times, 0.99, math.Ceil)} {
		l.rates = append(l.rates, rate)
		l.references = append(l.references, 1/single)
		l.ratios = append(l.ratios, figure/single)
	}
	middle.violations += violations
	return nil
}

// unaudited is how many of all events no audit has counted yet.
func (s *stage) unaudited(all int64) int64 { return all - s.own.done }

// paced produces an event of each account and answers their times in seconds.
func (v *serving) paced(ctx context.Context) ([]float64, error) {
	v.numbers++
	v.seen.reset()
	produced := make([]time.Time, v.events)
	ticker := time.NewTicker(pace)
	defer ticker.Stop()
	for a := range v.events {
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-ticker.C:
		}
		produced[a] = time.Now()
		if err := v.feeder.producer.Produce(ctx, record("latency", a, v.numbers)); err != nil {
			return nil, err
		}
	}
	err := await(ctx, 5*time.Millisecond, func() (int64, bool, error) {
		n := v.seen.count()
		return int64(n), n >= v.events, nil
	})
	if err != nil {
		return nil, err
	}
	times := make([]float64, v.events)
	for a := range times {
		at, ok := v.seen.of(accountID(a))
		if !ok {
			return nil, fmt.Errorf("the commit of %s was not seen", accountID(a))
		}
		times[a] = at.Sub(produced[a]).Seconds()
	}
	return times, nil
}

// singles is the median time of a single commit in seconds.
func (v *serving) singles(ctx context.Context, n int) (float64, error) {
	conn, err := v.s.pool.Acquire(ctx)
	if err != nil {
		return 0, err
	}
	defer conn.Release()
	sql := v.s.other.debit("$1", "$2")
	ticker := time.NewTicker(pace)
	defer ticker.Stop()
	var times []float64
	for a := range v.events {
		<-ticker.C
		began := time.Now()
		if _, err := conn.Exec(ctx, sql, accountID(a), n); err != nil {
			return 0, err
		}
		times = append(times, time.Since(began).Seconds())
	}
	return median(times), nil
}
