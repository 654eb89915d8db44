package kafka_test

import (
	"context"
	"database/sql"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/IBM/sarama"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/inboxd/inboxd/inbox/kafka"
	"github.com/inboxd/inboxd/internal/pgtest"
	"github.com/inboxd/inboxd/migrations"
)

// inlineWorld is a broker and a database that the tests of Inline share.
type inlineWorld struct {
	world
	url  string
	pool *pgxpool.Pool
	db   *sql.DB
}

func newInlineWorld(t *testing.T, w world) inlineWorld {
	t.Helper()
	url := pgtest.Server(t).URL()
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		t.Fatal(err)
	}
	config.MaxConns = 40
	pool := pgtest.PoolConfig(t, config)
	db := stdlib.OpenDB(*config.ConnConfig)
	t.Cleanup(func() { _ = db.Close() })
	return inlineWorld{w, url, pool, db}
}

// desk is one test's place: a topic, a schema with the tables, and the effects of
// the messages in it.
type desk struct {
	*bench
	world  inlineWorld
	topic  string
	schema string
}

func newDesk(t *testing.T, w inlineWorld, partitions int32) *desk {
	t.Helper()
	d := &desk{bench: newBench(t, w.world), world: w, schema: fmt.Sprint("inline_", unique.Add(1))}
	conn, err := pgx.Connect(d.ctx, w.url)
	d.check(err)
	defer func() { _ = conn.Close(d.ctx) }()
	_, _, err = migrations.Up(d.ctx, conn, d.schema)
	d.check(err)
	_, err = conn.Exec(d.ctx, d.in(`create table {schema}.effects (n int generated always as identity, id text, part int, off bigint)`))
	d.check(err)
	d.topic = d.bench.topic("t", partitions)
	return d
}

func (d *desk) in(statement string) string {
	return strings.ReplaceAll(statement, "{schema}", d.schema)
}

// send writes n messages to a partition, with ids prefix-0, prefix-1, ….
func (d *desk) send(partition int32, n int, prefix string) {
	d.Helper()
	d.produce(d.topic, partition, n, prefix)
}

// valueID takes the value for the id.
func valueID(m *sarama.ConsumerMessage) (string, error) { return string(m.Value), nil }

const effectSQL = `insert into {schema}.effects (id, part, off) values ($1, $2, $3)`

// effect is the handler that writes what it was called with.
func (d *desk) effect(ctx context.Context, tx pgx.Tx, m *sarama.ConsumerMessage) error {
	_, err := tx.Exec(ctx, d.in(effectSQL), string(m.Value), m.Partition, m.Offset)
	return err
}

func (d *desk) effectSQL(ctx context.Context, tx *sql.Tx, m *sarama.ConsumerMessage) error {
	_, err := tx.ExecContext(ctx, d.in(effectSQL), string(m.Value), m.Partition, m.Offset)
	return err
}

// config is for tests: everything that is waited for is short.
func (d *desk) config() kafka.InlineConfig[pgx.Tx] {
	return kafka.InlineConfig[pgx.Tx]{
		Consumer: "c", Schema: d.schema, ID: valueID, Handle: d.effect,
		RetryInitial: 5 * time.Millisecond, RetryMax: 20 * time.Millisecond, Grace: time.Second,
		Log: slog.New(slog.NewTextHandler(d.log, nil)),
	}
}

func (d *desk) handler(cfg kafka.InlineConfig[pgx.Tx]) *kafka.Inline {
	d.Helper()
	h, err := kafka.NewInline(d.world.pool, cfg)
	d.check(err)
	return h
}

func (d *desk) handlerSQL() *kafka.Inline {
	d.Helper()
	c := d.config()
	h, err := kafka.NewInlineSQL(d.world.db, kafka.InlineConfig[*sql.Tx]{
		Consumer: c.Consumer, Schema: c.Schema, ID: c.ID, Handle: d.effectSQL,
		RetryInitial: c.RetryInitial, RetryMax: c.RetryMax, Grace: c.Grace, Log: c.Log,
	})
	d.check(err)
	return h
}

// groupMember is a team's own consumer: a loop around Consume.
type groupMember struct {
	sarama.ConsumerGroupHandler
	desk     *desk
	sessions atomic.Int32
	claims   atomic.Int32 // partitions that it has now
	cancel   context.CancelFunc
	ended    chan struct{}
}

func (m *groupMember) Setup(s sarama.ConsumerGroupSession) error {
	m.sessions.Add(1)
	return m.ConsumerGroupHandler.Setup(s)
}

func (m *groupMember) ConsumeClaim(s sarama.ConsumerGroupSession, c sarama.ConsumerGroupClaim) error {
	m.claims.Add(1)
	defer m.claims.Add(-1)
	return m.ConsumerGroupHandler.ConsumeClaim(s, c)
}

// session is the time that the group waits for a member not heard of.
const inlineSession = 6 * time.Second

// join runs a member until the test ends or it is stopped. Without commits its
// marks are lost, as they are when it dies after a transaction has committed.
func (d *desk) join(handler sarama.ConsumerGroupHandler, commits bool) *groupMember {
	d.Helper()
	c := sarama.NewConfig()
	c.Version = sarama.V4_0_0_0
	c.Consumer.Offsets.Initial = sarama.OffsetOldest
	c.Consumer.Offsets.AutoCommit.Enable = commits
	c.Consumer.Offsets.AutoCommit.Interval = 20 * time.Millisecond
	c.Consumer.MaxWaitTime = 50 * time.Millisecond
	c.Consumer.Group.Session.Timeout = inlineSession
	c.Consumer.Group.Heartbeat.Interval = 100 * time.Millisecond
	c.Consumer.Group.Rebalance.GroupStrategies = []sarama.BalanceStrategy{sarama.NewBalanceStrategySticky()}
	group, err := sarama.NewConsumerGroup(d.world.addrs, d.group, c)
	d.check(err)
	ctx, cancel := context.WithCancel(context.Background())
	m := &groupMember{ConsumerGroupHandler: handler, desk: d, cancel: cancel, ended: make(chan struct{})}
	go func() {
		defer close(m.ended)
		for ctx.Err() == nil {
			if err := group.Consume(ctx, []string{d.topic}, m); err != nil {
				_, _ = fmt.Fprintln(d.log, "Consume:", err)
			}
		}
		_ = group.Close()
	}()
	d.Cleanup(m.stop)
	return m
}

func (m *groupMember) stop() {
	m.cancel()
	<-m.ended
}

func (m *groupMember) awaitClaims(n int32) {
	m.desk.Helper()
	m.desk.eventually(fmt.Sprintf("the member has %d partitions", n), func() bool { return m.claims.Load() == n })
}

// ask reads a value from the database.
func ask[T any](d *desk, query string, args ...any) T {
	d.Helper()
	var v T
	d.check(d.world.pool.QueryRow(d.ctx, d.in(query), args...).Scan(&v))
	return v
}

func (d *desk) awaitEffects(n int) {
	d.Helper()
	d.eventually(fmt.Sprintf("there are %d effects", n), func() bool { return ask[int](d, `select count(*) from {schema}.effects`) >= n })
}

// once fails the test unless there are n effects, none twice, each partition's in
// the order of the offsets, and as many claims.
func (d *desk) once(n int) {
	d.Helper()
	if got := ask[string](d, `select count(*) || ' ' || count(distinct id) from {schema}.effects`); got != fmt.Sprint(n, " ", n) {
		d.Errorf("effects, and different ones: %s; want %d of each", got, n)
	}
	if got := ask[int](d, `select count(*) from (
		select off - lag(off) over (partition by part order by n) as step from {schema}.effects) s where step <= 0`); got != 0 {
		d.Errorf("%d effects are out of order", got)
	}
	if got := ask[int](d, `select count(*) from {schema}.claims`); got != n {
		d.Errorf("%d claims, want %d", got, n)
	}
}
