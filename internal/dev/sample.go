package dev

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/inboxd/inboxd/handlers"
	"github.com/inboxd/inboxd/internal/config"
	"github.com/inboxd/inboxd/internal/service"
)

// MinEvents is the least for which a sample has everything in it.
const MinEvents = 50

// sampleLimit bounds how long a sample may take, besides a second for each
// thousand events.
const sampleLimit = 2 * time.Minute

// rewound is how many records of each partition are delivered again.
const rewound = 20

// SampleOptions say what a sample does.
type SampleOptions struct {
	Instance *Instance
	Pool     *pgxpool.Pool
	// Config is what Configure has made.
	Config *config.Config
	Events int
	Seed   uint64
	Log    *slog.Logger
	// Watch is called with each new part of the run, and may ask for what has
	// happened so far at any time.
	Watch func(now func() Now)
}

// Configure makes of a configuration that of the sample shop on an instance.
func Configure(c *config.Config, i *Instance) {
	c.Database.URL, c.Database.URLFile = i.URL(), ""
	c.Database.DirectURL, c.Database.DirectURLFile = "", ""
	c.Kafka = config.Default().Kafka
	c.Kafka.Brokers = i.Broker.Addrs()
	c.Kafka.Group = "sample-shop"
	c.Kafka.Topics = []string{OrdersTopic, PaymentsTopic}
	c.Kafka.Format = "json"
	c.Handlers = nil
	c.Lanes.Retry = Retry
}

// Retry has a lane of the sample shop stuck within seconds.
var Retry = config.Retry{Initial: 100 * time.Millisecond, Max: 400 * time.Millisecond, Attempts: 5}

// sample is one run.
type sample struct {
	o      SampleOptions
	reg    *handlers.Registry
	feed   *Feed
	before service.Counts // of services that have ended
	again  int64          // records delivered again
	began  time.Time
}

// RunSample sends the events, runs the same service as serve on them, and
// returns when nothing can run any more. Half-way it stops the service, and a new
// one gets some records again.
func RunSample(ctx context.Context, o SampleOptions) (*Report, error) {
	reg, err := Handlers()
	if err != nil {
		return nil, err
	}
	s := &sample{o: o, reg: reg, began: time.Now()}
	s.feed, err = NewFeed(NewStream(o.Seed, o.Events), o.Seed, o.Config.Kafka.Brokers...)
	if err != nil {
		return nil, err
	}
	defer s.feed.Close()
	ctx, cancel := context.WithTimeoutCause(ctx, sampleLimit+time.Duration(o.Events)*time.Millisecond,
		errors.New("the sample took too long"))
	defer cancel()
	half := o.Events / 2
	if err := s.part(ctx, func(ctx context.Context) error { return s.feed.Send(ctx, half) }); err != nil {
		return nil, err
	}
	if s.again, err = rewind(o.Config.Kafka.Brokers, o.Config.Kafka.Group, Topics(), rewound); err != nil {
		return nil, err
	}
	if err := s.part(ctx, func(ctx context.Context) error { return s.sendRest(ctx, o.Events-half) }); err != nil {
		return nil, err
	}
	return s.report(ctx)
}

func (s *sample) sendRest(ctx context.Context, n int) error {
	if err := s.feed.Send(ctx, n/2); err != nil {
		return err
	}
	if err := s.feed.SendPoison(ctx); err != nil {
		return err
	}
	if err := s.feed.Send(ctx, n-n/2); err != nil {
		return err
	}
	return s.feed.Flush(ctx)
}

// part runs one service until all that was sent is stored and no lane can run.
func (s *sample) part(ctx context.Context, send func(context.Context) error) error {
	svc, err := service.New(service.Options{
		Config: s.o.Config, Pool: s.o.Pool, Registry: s.reg, Log: s.o.Log, Commit: 100 * time.Millisecond,
	})
	if err != nil {
		return err
	}
	s.o.Watch(func() Now { return s.now(svc.Counts()) })
	running, stop := context.WithCancel(ctx)
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- svc.Run(running) }()
	err = send(ctx)
	if err == nil {
		err = s.until(ctx, ended, func() (bool, error) {
			if s.received(svc) < s.feed.Sent().Records()+s.again {
				return false, nil
			}
			return s.idle(ctx)
		})
	}
	stop()
	if ran := <-ended; err == nil {
		err = ran
	}
	s.before = s.before.Plus(svc.Counts())
	s.o.Watch(func() Now { return s.now(service.Counts{}) })
	return err
}

// received is how many records were dealt with.
func (s *sample) received(svc *service.Service) int64 {
	c := s.before.Plus(svc.Counts())
	return c.Stored + c.Duplicates + c.Conflicts + c.Quarantined + c.Ignored
}

// until waits for a condition, and for nothing once the service has ended.
func (s *sample) until(ctx context.Context, ended chan error, cond func() (bool, error)) error {
	ticker := time.NewTicker(30 * time.Millisecond)
	defer ticker.Stop()
	for {
		ok, err := cond()
		if ok || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case err := <-ended:
			ended <- nil
			return fmt.Errorf("the service ended before its time: %w", err)
		case <-ticker.C:
		}
	}
}

// Now is what has happened in a run so far.
type Now struct {
	Since   time.Time
	Sent    Sent
	Counts  service.Counts
	Elapsed time.Duration
}

func (s *sample) now(c service.Counts) Now {
	return Now{Since: s.began, Sent: s.feed.Sent(), Counts: s.before.Plus(c), Elapsed: time.Since(s.began)}
}
