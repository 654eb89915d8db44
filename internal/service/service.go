package service

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/inboxd/inboxd/handlers"
	"github.com/inboxd/inboxd/inbox"
	"github.com/inboxd/inboxd/inbox/formats"
	jsonformat "github.com/inboxd/inboxd/inbox/json"
	"github.com/inboxd/inboxd/inbox/kafka"
	"github.com/inboxd/inboxd/internal/config"
	"github.com/inboxd/inboxd/internal/database"
	"github.com/inboxd/inboxd/ordering"
)

// Options say what a Service is made of. All are needed but the last three.
type Options struct {
	Config   *config.Config
	Pool     *pgxpool.Pool
	Registry *handlers.Registry // must not change any more
	Log      *slog.Logger
	// LanesOnly reads nothing from Kafka.
	LanesOnly bool
	// UntilIdle ends Run when no lane can run any more; it needs LanesOnly.
	UntilIdle bool
	// Commit is the least time between two commits of offsets; 0: the source's
	// default.
	Commit time.Duration
}

// Service ingests records and runs lanes. Make one with New, run it once.
type Service struct {
	Processor *ordering.Processor
	Ingester  *inbox.Ingester
	Store     *inbox.Store

	source *kafka.Source // nil: lanes only
	notes  *sourceNotes  // nil: lanes only
	cfg    *config.Config
	log    *slog.Logger
}

// New puts a Service together and connects to nothing. Its error is a mistake in
// the configuration.
func New(o Options) (*Service, error) {
	s := &Service{cfg: o.Config, log: o.Log}
	var err error
	if s.Processor, err = ordering.New(o.Pool, o.Registry, s.lanes(o)); err != nil {
		return nil, err
	}
	s.Store = inbox.NewStore(o.Pool, o.Config.Database.Schema,
		inbox.OnStored(s.Processor.Wake), inbox.ForProcess(s.Processor.ProcessID))
	decoder, err := Decoder(o.Config)
	if err != nil {
		return nil, err
	}
	s.Ingester = &inbox.Ingester{Store: s.Store, Decoder: decoder, Ignored: o.Registry.Ignores, Log: o.Log}
	if o.LanesOnly {
		return s, nil
	}
	if o.UntilIdle {
		return nil, errors.New("a service that ingests has no end: UntilIdle needs LanesOnly")
	}
	if s.source, err = s.kafka(o); err != nil {
		return nil, err
	}
	s.notes = s.newSourceNotes(o.Pool)
	s.Ingester.Observe = s.notes.count
	return s, nil
}

// Decoder is what makes events of records by the configuration.
func Decoder(c *config.Config) (inbox.Decoder, error) {
	f := c.Kafka.Fields
	decoder, err := formats.New(formats.Config{
		Format: c.Kafka.Format,
		Fields: jsonformat.Fields{
			EventID: f.EventID, AggregateID: f.AggregateID, EventType: f.EventType,
			Sequence: f.Sequence, OccurredAt: f.OccurredAt,
		},
		Tombstones: c.Kafka.Tombstones,
	})
	if err != nil {
		return nil, fmt.Errorf("kafka: %w", err)
	}
	return decoder, nil
}

// poolReserve is how many of the pool's connections are not the workers': the
// heartbeat, the sweep and the settler must not wait for a slow handler, and
// neither must ingest.
const poolReserve = 5

// lanes is the processor's configuration.
func (s *Service) lanes(o Options) ordering.Config {
	l := s.cfg.Lanes
	workers := max(1, min(l.Workers, int(o.Pool.Config().MaxConns)-poolReserve))
	if workers < l.Workers {
		s.log.Warn("fewer workers than configured: database.max_connections leaves room for no more",
			"workers", workers, "configured", l.Workers, "max_connections", s.cfg.Database.MaxConnections)
	}
	drain := l.Drain
	if drain == 0 { // none, where ordering's 0 is its default
		drain = -1
	}
	return ordering.Config{
		Schema: s.cfg.Database.Schema, Workers: workers, Batch: l.Batch, FlushEach: l.FlushEach,
		HandlerTimeout: l.HandlerTimeout, Lease: l.Lease, Drain: drain,
		Retry: retry(l.Retry), Policies: policies(s.cfg.Handlers), Breaker: breaker(l.Breaker),
		UntilIdle: o.UntilIdle, Log: s.log, Connect: connect(s.cfg.Database.DirectURL),
	}
}

// connect is how the listener connects; nil: as the pool does.
func connect(direct string) ordering.ConnectFunc {
	if direct == "" {
		return nil
	}
	return func(ctx context.Context) (*pgx.Conn, error) { return database.Connect(ctx, direct) }
}

// Where the configuration's 0 is none, ordering's is its default.
func retry(r config.Retry) ordering.Retry {
	jitter := r.Jitter
	if jitter == 0 {
		jitter = -1
	}
	return ordering.Retry{
		Initial: r.Initial, Max: r.Max, Multiplier: r.Multiplier, Jitter: jitter, Attempts: r.Attempts,
		Permanent: r.Permanent, Transient: r.Transient,
	}
}

func breaker(b config.Breaker) ordering.Breaker {
	lanes := b.Lanes
	if lanes == 0 {
		lanes = -1
	}
	return ordering.Breaker{Lanes: lanes, Probe: b.Probe, Max: b.Max}
}

// policies are those of event types in the configuration.
func policies(configured map[string]config.Handler) map[string]handlers.Retry {
	p := map[string]handlers.Retry{}
	for eventType, h := range configured {
		if r := h.Retry; r != nil {
			p[eventType] = handlers.Retry{
				Initial: r.Initial, Max: r.Max, Multiplier: r.Multiplier, Jitter: r.Jitter, Attempts: r.Attempts, Never: r.Never,
			}
		}
	}
	return p
}
