package cmd

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cenkalti/backoff/v4"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/spf13/cobra"

	pgdatabase "github.com/inboxd/inboxd/internal/database"
	"github.com/inboxd/inboxd/internal/dev"
	"github.com/inboxd/inboxd/internal/fault"
	"github.com/inboxd/inboxd/internal/service"
)

func newServeCmd(a *app) *cobra.Command {
	var drain bool
	var profiles string
	var from resetFlags
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Ingest and run lanes until stopped",
		Long: "Store the records of kafka.topics as events and run the handler of each event, until stopped.\n" +
			"It may be started before database and broker are up, and as often as wanted at the same time.\n\n" +
			"SIGINT or SIGTERM: take nothing new, finish what runs within lanes.drain, exit 0.\n" +
			"A second one, or the deadline: roll back what still runs, exit 1. It runs again at the next start.\n\n" +
			"--from moves the offsets of all topics first, once, as sources reset does: see its help.",
		Args: exactArgs(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := from.checkServe(cmd, drain); err != nil {
				return err
			}
			stop, err := a.servePprof(profiles)
			if err != nil {
				return err
			}
			defer stop()
			return a.serve(cmd.Context(), drain, from)
		},
	}
	a.addFromFlags(cmd, &from)
	cmd.Flags().StringVar(&profiles, "pprof", "", "serve Go profiles on the loopback `ADDRESS` host:port (default: nowhere)")
	cmd.Flags().BoolVar(&drain, "drain", false, "ingest nothing, run what can run, exit when nothing can")
	return cmd
}

func (a *app) serve(ctx context.Context, drain bool, from resetFlags) error {
	insist := insistOn(ctx)
	defer insist.stop()
	db, err := a.poolDatabase(ctx)
	if err != nil {
		return err
	}
	whole := true // nothing is left that holds a connection
	defer func() { db.end(whole) }()
	if err := a.registerFor(db); err != nil {
		return err
	}
	defer a.closeHooks()
	if err := a.checkHooks(); err != nil {
		return wrongUse("%w", err)
	}
	lanesOnly := drain || len(db.config.Kafka.Topics) == 0
	s, err := service.New(service.Options{
		Config: db.config, Pool: db.pool, Registry: a.reg, Log: a.log, LanesOnly: lanesOnly, UntilIdle: drain,
	})
	if err != nil {
		return wrongUse("%w", err)
	}
	if err := a.awaitDatabase(ctx, db, !drain); err != nil {
		if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
			return nil // stopped before there was anything to stop
		}
		return err
	}
	if err := db.mayServe(ctx); err != nil {
		return err
	}
	if err := a.moveBefore(ctx, db, from); err != nil {
		return err
	}
	a.logServing(db, drain, lanesOnly)
	err = a.runService(ctx, s, insist)
	whole = err == nil // a handler that does not return keeps its connection
	if err == nil && drain {
		a.logDrained(context.WithoutCancel(ctx), db, s.Counts(), ctx.Err() != nil)
	}
	return err
}

// registerFor adds the handlers of the configuration, or takes those of the
// sample shop for its database.
func (a *app) registerFor(db *database) error {
	if db.dev == nil || db.dev.Database == dev.Own {
		return a.registerConfigured(db.config)
	}
	var err error
	db.config.Lanes.Retry = dev.Retry
	a.reg, err = dev.Handlers()
	return err
}

// logServing says what is served, and what will be missed.
func (a *app) logServing(db *database, drain, lanesOnly bool) {
	attrs := []any{"schema", db.schema, "handlers", len(a.reg.Types())}
	switch {
	case drain:
		a.log.Info("running what can run", attrs...)
	case lanesOnly:
		a.log.Info("running lanes only: no topics are configured (kafka.topics)", attrs...)
	default:
		k := db.config.Kafka
		a.log.Info("serving", append(attrs, "brokers", k.Brokers, "group", k.Group, "topics", k.Topics)...)
	}
	if len(a.reg.Types()) == 0 {
		a.log.Warn("no event type has a handler: each lane will be stuck at its next event (see handlers in the configuration)")
	}
}

// logDrained says in the log what a drain did and what it left.
func (a *app) logDrained(ctx context.Context, db *database, did service.Counts, stopped bool) {
	const held = `select count(*) filter (where state = 'stuck'), count(*) filter (where state = 'paused'),
		count(*) filter (where state = 'waiting') from %s.lanes where state <> 'ready'`
	attrs := []any{"processed", did.Processed, "failed_attempts", did.Failed, "skipped", did.Skipped}
	var stuck, paused, waiting int64
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	if err := db.pool.QueryRow(ctx, fmt.Sprintf(held, pgx.Identifier{db.schema}.Sanitize())).Scan(&stuck, &paused, &waiting); err == nil {
		attrs = append(attrs, "lanes_stuck", stuck, "lanes_paused", paused, "lanes_waiting", waiting)
	}
	if stopped {
		a.log.Info("stopped before everything had run", attrs...)
		return
	}
	a.log.Info("nothing more can run", attrs...)
}

// runService runs s until it ends, and ends it at a second request to stop. It
// does not wait for ever for a handler that does not listen.
func (a *app) runService(ctx context.Context, s *service.Service, insist *insistence) error {
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	stopping := context.AfterFunc(ctx, func() { a.log.Info("stopping: what runs is finished first") })
	defer stopping()
	select {
	case err := <-ended:
		if err == nil && ctx.Err() != nil {
			a.log.Info("stopped")
		}
		return stopFailure(ctx, err)
	case <-insist.again:
	}
	a.log.Warn("asked to stop a second time; rolling back what still runs")
	s.Abort()
	limit := time.NewTimer(insistLimit)
	defer limit.Stop()
	select {
	case err := <-ended:
		if err == nil {
			return nil // it had just finished
		}
		return stopFailure(ctx, err)
	case <-limit.C:
		return stopFailure(ctx, fmt.Errorf("something did not stop within %s", insistLimit))
	}
}

// insistLimit is how long a second request to stop may take.
const insistLimit = 5 * time.Second

// stopFailure says what a stop cut short, or why it ended by itself.
func stopFailure(ctx context.Context, err error) error {
	switch {
	case err == nil:
		return nil
	case ctx.Err() == nil:
		return failed("ended without being asked to: %w", err)
	}
	return failed("stopped before everything had finished: %w", err).
		withHint("nothing of it took effect; it runs again at the next start")
}

// awaitDatabase returns when the database answers and has the right schema. If
// wait is true it waits for one that is away, and says so once a minute.
func (a *app) awaitDatabase(ctx context.Context, db *database, wait bool) error {
	policy := backoff.WithContext(backoff.NewExponentialBackOff(
		backoff.WithInitialInterval(100*time.Millisecond),
		backoff.WithMaxInterval(2*time.Second),
		backoff.WithMaxElapsedTime(0)), ctx)
	began, said := time.Now(), time.Time{}
	err := backoff.RetryNotify(func() error {
		err := db.checkSchema(ctx)
		if err == nil || wait && passes(err) {
			return err
		}
		return backoff.Permanent(err)
	}, policy, func(err error, _ time.Duration) {
		if time.Since(said) >= time.Minute {
			said = time.Now()
			a.log.Warn("the database is out of reach; waiting for it", "for", time.Since(began).Round(time.Second).String(), "error", err.Error())
		}
	})
	if err == nil && !said.IsZero() {
		a.log.Info("the database answers", "after", time.Since(began).Round(time.Millisecond).String())
	}
	return err
}

// passes reports whether a failure to reach the database may pass by itself. A
// server that answers and says no is a mistake of configuration.
func passes(err error) bool {
	var refusal *pgconn.PgError
	if errors.As(err, &refusal) {
		return fault.Of(err) == fault.Outage
	}
	_, connecting := pgdatabase.Explain(err)
	return connecting || fault.Of(err) == fault.Outage
}
