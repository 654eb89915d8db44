package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/inboxd/inboxd/inbox"
	"github.com/inboxd/inboxd/inbox/kafka"
	"github.com/inboxd/inboxd/internal/broker"
	"github.com/inboxd/inboxd/internal/config"
	"github.com/inboxd/inboxd/internal/service"
)

const partitions = 4

// ingest is W5: 100,000 records of 1,000 aggregates in four partitions of the
// embedded broker, which runs in this process too, against COPY of the rows that
// became of them, in one piece, into a table of the same shape with the same
// indexes. The time runs from the first record that is decoded to the last
// commit; both tables keep the rows of all rounds.
func ingest(ctx context.Context, b *bench) (out []Result, err error) {
	aggregates, perLane := spread(b.events(100_000), 1000, 20)
	s, err := b.newStage(ctx, 0, workers+reserve)
	if err != nil {
		return nil, err
	}
	defer s.close()
	if err := s.exec(ctx, "create table {other}.copied (like {schema}.inbox including all)"); err != nil {
		return nil, err
	}
	kafkas, err := newFeeder()
	if err != nil {
		return nil, err
	}
	defer kafkas.close()
	l := &line{scenario: "W5", events: aggregates * perLane, aggregates: aggregates, workers: partitions,
		batch: 1000, reference: "COPY", goal: goal{value: 0.5}}
	in := &intake{s: s, feeder: kafkas, aggregates: aggregates}
	if _, _, _, err := in.round(ctx, "warm-up", max(1, perLane/10), func(string) {}); err != nil {
		return nil, err
	}
	err = b.each(func(n int, note func(string)) error {
		own, reference, violations, err := in.round(ctx, fmt.Sprintf("round-%d", n+1), perLane, note)
		if err == nil {
			l.violations += violations
			l.compare(own, reference)
		}
		return err
	})
	return results(l), err
}

// intake ingests and copies.
type intake struct {
	s          *stage
	feeder     *feeder
	aggregates int
	fed        int64
}

// round ingests the records of a new topic, and copies them.
func (in *intake) round(ctx context.Context, topic string, perLane int, note func(string)) (own, reference side, violations int64, err error) {
	note("producing records")
	if err := in.feeder.topic(topic); err != nil {
		return own, reference, 0, err
	}
	if err := in.produce(ctx, topic, perLane); err != nil {
		return own, reference, 0, err
	}
	if err := in.s.prepare(ctx, func(context.Context) error { return nil }); err != nil {
		return own, reference, 0, err
	}
	note("ingest")
	events := int64(in.aggregates * perLane)
	if own, err = in.ingest(ctx, topic, events); err != nil {
		return own, reference, 0, err
	}
	if violations, err = in.audit(ctx, topic, events); err != nil {
		return own, reference, 0, err
	}
	note("COPY")
	reference, err = in.copy(ctx, topic)
	return own, reference, violations, err
}

func (in *intake) produce(ctx context.Context, topic string, perLane int) error {
	var records []*inbox.Record
	for n := in.fed + 1; n <= in.fed+int64(perLane); n++ {
		for a := range in.aggregates {
			records = append(records, record(topic, a, n))
			if len(records) < 10_000 && (n < in.fed+int64(perLane) || a < in.aggregates-1) {
				continue
			}
			if err := in.feeder.producer.Produce(ctx, records...); err != nil {
				return err
			}
			records = records[:0]
		}
	}
	in.fed += int64(perLane)
	return nil
}

// ingest reads a topic to its end.
func (in *intake) ingest(ctx context.Context, topic string, events int64) (side, error) {
	cfg := config.Default()
	decoder, err := service.Decoder(cfg)
	if err != nil {
		return side{}, err
	}
	sink := &timedSink{Ingester: &inbox.Ingester{Store: in.s.store, Decoder: decoder}}
	source, err := kafka.New(kafka.Config{
		Brokers: in.feeder.broker.Addrs(), Group: topic, Topics: []string{topic}, Log: slog.New(slog.DiscardHandler),
	}, sink)
	if err != nil {
		return side{}, err
	}
	running, stop := context.WithCancel(ctx)
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- source.Run(running) }()
	var last time.Time
	waited := await(ctx, poll, func() (int64, bool, error) {
		stored := sink.Counts().Stored
		last = time.Now()
		return stored, stored >= events, nil
	})
	stop()
	if err := errors.Join(waited, <-ended); err != nil {
		return side{}, err
	}
	return side{events, last.Sub(time.Unix(0, sink.began.Load()))}, nil
}

// timedSink notes when the first records come.
type timedSink struct {
	*inbox.Ingester
	began atomic.Int64
}

func (t *timedSink) Ingest(ctx context.Context, records []inbox.Record) error {
	t.began.CompareAndSwap(0, time.Now().UnixNano())
	return t.Ingester.Ingest(ctx, records)
}

// copy copies the rows of a topic.
func (in *intake) copy(ctx context.Context, topic string) (side, error) {
	conn, err := in.s.pool.Acquire(ctx)
	if err != nil {
		return side{}, err
	}
	defer conn.Release()
	var rows bytes.Buffer
	pg := conn.Conn().PgConn()
	// COPY takes no parameters; the topic is a name of our own.
	_, err = pg.CopyTo(ctx, &rows, in.s.in(`copy (select * from {schema}.inbox where source_topic = '`+topic+`') to stdout (format binary)`))
	if err != nil {
		return side{}, fmt.Errorf("read the rows: %w", err)
	}
	if err := in.s.checkpoint(ctx); err != nil {
		return side{}, err
	}
	began := time.Now()
	tag, err := pg.CopyFrom(ctx, &rows, in.s.in(`copy {other}.copied from stdin (format binary)`))
	if err != nil {
		return side{}, fmt.Errorf("copy the rows: %w", err)
	}
	return side{tag.RowsAffected(), time.Since(began)}, nil
}

// audit compares what was stored with what was produced: each event once, and
// each aggregate's in the order of its partition.
func (in *intake) audit(ctx context.Context, topic string, events int64) (int64, error) {
	const counts = `select abs(count(*) - $2) + count(*) - count(distinct event_id)
		+ count(*) filter (where source_offset <= before) from (
			select event_id, source_offset, lag(source_offset) over (partition by aggregate_id order by position) as before
			from {schema}.inbox where source_topic = $1) i`
	return one[int64](ctx, in.s.pool, in.s.in(counts), topic, events)
}

// feeder is an embedded broker and a producer.
type feeder struct {
	broker   *broker.Broker
	producer *broker.Producer
}

func newFeeder() (*feeder, error) {
	b, err := broker.Start(broker.Config{})
	if err != nil {
		return nil, err
	}
	p, err := broker.NewProducer(b.Addrs()...)
	if err != nil {
		b.Close()
		return nil, err
	}
	return &feeder{b, p}, nil
}

func (f *feeder) close() {
	f.producer.Close()
	f.broker.Close()
}

func (f *feeder) topic(name string) error {
	return f.broker.Cluster().CreateTopic(name, partitions, nil)
}

// record is an event on its way, with its fields where the default configuration
// looks for them.
func record(topic string, a int, n int64) *inbox.Record {
	return &inbox.Record{
		Key: []byte(accountID(a)), Value: payload(n), Time: time.Now(),
		Headers: []inbox.Header{{Name: "id", Value: []byte(eventID(a, n))}, {Name: "eventType", Value: []byte(formSQL)}},
		Source:  inbox.Source{Topic: topic, Partition: broker.ByKey},
	}
}
