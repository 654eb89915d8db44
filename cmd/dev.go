package cmd

import (
	"context"
	"errors"
	"log/slog"
	"sync"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"

	"github.com/inboxd/inboxd/handlers"
	"github.com/inboxd/inboxd/internal/config"
	"github.com/inboxd/inboxd/internal/dev"
	"github.com/inboxd/inboxd/internal/postgres"
	"github.com/inboxd/inboxd/internal/service"
)

// devFlags are those of dev.
type devFlags struct {
	events int
	seed   uint64
	sample bool
	fresh  bool
}

func newDevCmd(a *app) *cobra.Command {
	var f devFlags
	cmd := &cobra.Command{
		Use:   "dev",
		Short: "Serve on an embedded PostgreSQL and an embedded Kafka",
		Long: "Serve on an embedded PostgreSQL and an embedded Kafka broker, which listen on loopback only.\n\n" +
			"inboxd dev stays up until stopped, with the topics and handlers of the configuration. Other commands\n" +
			"reach its database with --dev, whether it runs or not. Its data is kept: the next start goes on.\n\n" +
			"inboxd dev --events N runs a sample shop of N events in a database of its own, made anew each time,\n" +
			"reports and ends. The stream holds duplicates, failures and a poison record. --dev leads to the sample\n" +
			"from then on, until the next start of inboxd dev. With --sample the shop goes on until stopped.",
		Args: exactArgs(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if cmd.Flags().Changed("events") {
				return a.devSample(cmd.Context(), f)
			}
			return a.devServe(cmd.Context(), f)
		},
	}
	fs := cmd.Flags()
	fs.IntVar(&f.events, "events", 0, "run the sample shop with `N` events, then report and end")
	fs.Uint64Var(&f.seed, "seed", 1, "begin the stream of --events with this `NUMBER`: the same one gives the same events")
	fs.BoolVar(&f.sample, "sample", false, "keep producing a gentle stream of the sample shop")
	fs.BoolVar(&f.fresh, "fresh", false, "start anew: drop the database and the broker's records first")
	a.addOutputFlag(cmd)
	cmd.MarkFlagsMutuallyExclusive("events", "sample")
	return cmd
}

// startDev starts the servers for one of the databases.
func (a *app) startDev(ctx context.Context, c *config.Config, database string, fresh bool, topics map[string]int32) (*dev.Instance, error) {
	dir, err := a.devDirectory()
	if err != nil {
		return nil, err
	}
	a.say("starting PostgreSQL and a Kafka broker on 127.0.0.1; their data is in %s", dir.Path())
	i, err := dev.Start(ctx, dev.Options{
		Dir: dir, Database: database, Schema: c.Database.Schema, Fresh: fresh, Topics: topics, Log: a.log,
	})
	switch {
	case err == nil:
		return i, nil
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case errors.Is(err, dev.ErrRunning):
		return nil, failed("%w", err).withHint("use that one with --dev, stop it, or name another directory with --dir")
	case errors.Is(err, postgres.ErrNoBinaries):
		return nil, failed("%w", err).withHint("install PostgreSQL 14 or newer, or set INBOXD_POSTGRES_BIN to the directory of its programs")
	default:
		return nil, failed("the development servers cannot be started: %w", err)
	}
}

// devSample runs a number of events and reports.
func (a *app) devSample(ctx context.Context, f devFlags) error {
	if f.events < dev.MinEvents {
		return wrongUse("--events is %d, but a sample needs %d at least to have everything in it", f.events, dev.MinEvents)
	}
	c, err := a.config()
	if err != nil {
		return err
	}
	i, err := a.startDev(ctx, c, dev.Sample, true, dev.Topics())
	if err != nil {
		return err
	}
	defer i.Close() // what goes wrong here, the next start puts right
	dev.Configure(c, i)
	pool, err := openPool(c)
	if err != nil {
		return err
	}
	defer pool.Close()
	log := slog.New(slog.DiscardHandler) // the report says what a log would
	if a.global.logLevel != "" || a.getenv("INBOXD_LOG_LEVEL") != "" {
		log = a.log
	}
	view := a.newDevView(pool, c.Database.Schema)
	report, err := view.during(func() (*dev.Report, error) {
		return dev.RunSample(ctx, dev.SampleOptions{
			Instance: i, Pool: pool, Config: c, Events: f.events, Seed: f.seed, Log: log, Watch: view.watch,
		})
	})
	switch {
	case err != nil && ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		return failed("the sample did not come to its end: %w", err).withHint("run it with --log-level info to see more")
	}
	if err := a.showSample(report); err != nil {
		return err
	}
	if n := report.Violations.Total(); n > 0 {
		return failed("the order was violated %d times", n)
	}
	return nil
}

// devServe serves until stopped.
func (a *app) devServe(ctx context.Context, f devFlags) error {
	insist := insistOn(ctx)
	defer insist.stop()
	c, err := a.config()
	if err != nil {
		return err
	}
	database, topics := dev.Own, map[string]int32{}
	if f.sample {
		database, topics = dev.Shop, dev.Topics()
	} else if len(c.Kafka.Topics) == 0 {
		c.Kafka.Topics = []string{"orders", "payments"}
	}
	for _, topic := range c.Kafka.Topics {
		topics[topic] = 3
	}
	i, err := a.startDev(ctx, c, database, f.fresh, topics)
	if err != nil {
		return err
	}
	defer i.Close() // what goes wrong here, the next start puts right
	reg, err := a.devHandlers(c, i, f.sample)
	if err != nil {
		return err
	}
	pool, err := openPool(c)
	if err != nil {
		return err
	}
	s, err := service.New(service.Options{Config: c, Pool: pool, Registry: reg, Log: a.log})
	if err != nil {
		return wrongUse("%w", err)
	}
	if err := a.showDev(i, c, reg); err != nil {
		return err
	}
	feeding, stopFeeding := context.WithCancel(ctx)
	var feeder sync.WaitGroup
	if f.sample {
		feeder.Go(func() { a.feedSample(feeding, i, c, pool) })
	}
	err = a.runService(ctx, s, insist)
	stopFeeding()
	feeder.Wait()
	if err == nil { // else a handler may keep its connection
		pool.Close()
	}
	return err
}

// devHandlers are those of the sample shop, or the user's own.
func (a *app) devHandlers(c *config.Config, i *dev.Instance, sample bool) (*handlers.Registry, error) {
	if sample {
		dev.Configure(c, i)
		return dev.Handlers()
	}
	c.Database.URL, c.Database.URLFile = i.URL(), ""
	c.Database.DirectURL, c.Database.DirectURLFile = "", ""
	c.Kafka.Brokers = i.Broker.Addrs()
	return a.reg, a.registerConfigured(c)
}

// samplePerSecond is how many events the gentle stream has.
const samplePerSecond = 10

// feedSample goes on with the sample stream behind what is stored of it.
func (a *app) feedSample(ctx context.Context, i *dev.Instance, c *config.Config, pool *pgxpool.Pool) {
	err := dev.RunFeed(ctx, i, c.Database.Schema, pool, samplePerSecond)
	if err != nil && ctx.Err() == nil {
		a.log.Warn("the sample stream has ended", "error", err.Error())
	}
}
