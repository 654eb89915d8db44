package config

import (
	"log/slog"
	"slices"
	"time"
)

// Config is the whole configuration. [Load] and [Default] make one; the zero
// Config is of no use.
type Config struct {
	Database  Database           `koanf:"database"`
	Kafka     Kafka              `koanf:"kafka"`
	Lanes     Lanes              `koanf:"lanes"`
	Handlers  map[string]Handler `koanf:"handlers"` // by event type
	Retention Retention          `koanf:"retention"`
	Admin     Admin              `koanf:"admin"`

	// File is the path of the YAML file that was read; empty: there was none.
	File string `koanf:"-"`
}

// Database says where the inbox is.
type Database struct {
	// URL is a connection string for PostgreSQL in the form of a URL or of
	// keywords and values, password included. Empty: the driver takes all it
	// needs from PGHOST and its like.
	// Default: postgres://app@localhost:5432/shop.
	URL string `koanf:"url"`
	// URLFile is a file that held the URL; Load has read it into URL.
	URLFile string `koanf:"url_file"`
	// DirectURL leads past a connection pooler that URL leads to, to the same
	// database: what needs a session of its own goes there. Those are LISTEN,
	// migrations and dry runs. Empty: as URL. Default: empty.
	DirectURL string `koanf:"direct_url"`
	// DirectURLFile is a file that held DirectURL; Load has read it.
	DirectURLFile string `koanf:"direct_url_file"`
	// Schema is the schema that holds everything. Default: inboxd.
	Schema string `koanf:"schema"`
	// MaxConnections is how many connections one process opens at most, the
	// listener included. 0 in a file: Lanes.Workers + 6, which is the default.
	MaxConnections int `koanf:"max_connections"`
}

// Kafka says which records are ingested, and how they become events.
type Kafka struct {
	// Brokers are the first addresses to try, host:port each.
	// Default: localhost:9092.
	Brokers []string `koanf:"brokers"`
	// Group is the consumer group. Default: shop-inbox.
	Group string `koanf:"group"`
	// Topics are the topics to ingest. One that begins with ^ is a regular
	// expression for whole names. Default: none.
	Topics []string `koanf:"topics"`
	// TopicRefresh is how often the broker is asked which topics and partitions
	// there are. Default: 10s.
	TopicRefresh time.Duration `koanf:"topic_refresh"`
	// InstanceID makes this process a static member of the group: one that is
	// back within the session's time-out gets its partitions again without a
	// rebalance. It must be another in each process. Default: none.
	InstanceID string `koanf:"instance_id"`
	// MaxBytes bounds the records that are read and not yet stored, over all
	// partitions of the process. Default: 64MiB.
	MaxBytes Bytes `koanf:"max_bytes"`
	// TLS is how connections to the brokers are encrypted.
	TLS TLS `koanf:"tls"`
	// SASL is how the process says who it is.
	SASL SASL `koanf:"sasl"`
	// Format is auto, json, cloudevents, debezium or raw. Default: auto.
	Format string `koanf:"format"`
	// Fields says where each field of an event is found.
	Fields Fields `koanf:"fields"`
	// Tombstones says what becomes of a record with a null value: quarantine,
	// ignore or event. Default: quarantine.
	Tombstones string `koanf:"tombstones"`
	// Start is where a group without offsets begins: oldest, newest or a time
	// in RFC 3339. Default: oldest. See StartTime.
	Start string `koanf:"start"`
}

// StartTime is the time that Start names; ok is false for oldest and newest.
func (k Kafka) StartTime() (t time.Time, ok bool) {
	t, err := time.Parse(time.RFC3339, k.Start)
	return t, err == nil
}

// Fields says where each field of an event is found. A place is "key" (the
// record's key), "header:NAME", "ce:ATTRIBUTE" (of a CloudEvent) or "$.path" (a
// JSON path of names and [n]); the first place that has something wins. A list
// that is the default lets CloudEvents and Debezium use the places of their own.
type Fields struct {
	// EventID may also hold topic-partition-offset: the record's place in Kafka is
	// the event's identity, so what a producer sends twice is two events.
	// Default: header:id, $.eventId.
	EventID     []string `koanf:"event_id"`
	AggregateID []string `koanf:"aggregate_id"` // default: key, $.orderId
	// EventType may also hold tombstone:TYPE, the type of records with a null
	// value; it needs Tombstones to be event.
	// Default: header:eventType, $.eventType.
	EventType  []string `koanf:"event_type"`
	Sequence   []string `koanf:"sequence"`    // default: $.version
	OccurredAt []string `koanf:"occurred_at"` // default: none, the record's time
}

// Lanes says how lanes are run.
type Lanes struct {
	// Workers is how many lanes run at once in this process. Default: 16.
	Workers int `koanf:"workers"`
	// Batch is how many events of one lane share a transaction at most; 1: a
	// transaction for each event. Default: 16.
	Batch int `koanf:"batch"`
	// FlushEach has each transaction of a lane wait for the disk before the next
	// one begins; otherwise queued ones are flushed together. Default: false.
	FlushEach bool `koanf:"flush_each"`
	// Order is position; sequence is known, and refused by this version.
	// Default: position.
	Order string `koanf:"order"`
	// HandlerTimeout is how long a handler may take. Default: 30s.
	HandlerTimeout time.Duration `koanf:"handler_timeout"`
	// Lease is how long a process may go unheard before it loses its lanes.
	// Default: 10s.
	Lease time.Duration `koanf:"lease"`
	// Drain is the time that what runs gets to finish at a stop; 0: none.
	// Default: 30s.
	Drain time.Duration `koanf:"drain"`
	// Retry is how a failed head is tried again.
	Retry Retry `koanf:"retry"`
	// Breaker is when an event type is paused because what its handler depends
	// on is down.
	Breaker Breaker `koanf:"breaker"`
}

// Breaker is when an event type is paused.
type Breaker struct {
	// Lanes is how many lanes must fail as if something was down, with no
	// success between them; 0: only a handler that says so pauses its type.
	// Default: 5.
	Lanes int `koanf:"lanes"`
	// Probe is the wait before the first probe. Default: 1s.
	Probe time.Duration `koanf:"probe"`
	// Max is the longest wait between two probes. Default: 30s.
	Max time.Duration `koanf:"max"`
}

// Retry is how a failed head is tried again.
type Retry struct {
	// Initial is the wait after the first failure. Default: 200ms.
	Initial time.Duration `koanf:"initial"`
	// Max is the longest wait. Default: 1m.
	Max time.Duration `koanf:"max"`
	// Multiplier is what each wait is longer by than the one before. Default: 2.
	Multiplier float64 `koanf:"multiplier"`
	// Jitter is how far a wait is off at random, as a share of it; 0: not at
	// all. Default: 0.25.
	Jitter float64 `koanf:"jitter"`
	// Attempts is after how many attempts the lane is stuck. Default: 10.
	Attempts int `koanf:"attempts"`
	// Permanent are SQLSTATEs, or classes of them, that make a lane stuck at
	// once. Default: none.
	Permanent []string `koanf:"permanent"`
	// Transient are SQLSTATEs, or classes of them, that use up no attempt.
	// Default: none.
	Transient []string `koanf:"transient"`
}

// Handler is what the configuration says about one event type: one of Ignore,
// SQL and Webhook is set, or Retry alone for a handler in Go.
type Handler struct {
	// Ignore: events of this type are counted and not stored.
	Ignore bool
	// SQL holds the statements to run in the lane's transaction, in order.
	SQL []string
	// Retry is the policy of the type; nil: that of the lanes.
	Retry *HandlerRetry
	// Webhook is where the event is sent.
	Webhook *Webhook
}

// Retention says how long what is done with is kept.
type Retention struct {
	// Processed is how long a processed event is kept, and how long its id is
	// remembered. Default: 168h.
	Processed time.Duration `koanf:"processed"`
}

// Admin says where the process answers to probes.
type Admin struct {
	// Listen is host:port; empty: nowhere. It is known, and refused by this
	// version. Default: empty.
	Listen string `koanf:"listen"`
}

// extraConnections is what a process needs beyond one connection a worker:
// the listener, ingest, the sweep and a few for operators' commands.
const extraConnections = 6

// Default returns the configuration of a process that nothing was said to.
func Default() *Config {
	c := defaults()
	c.complete()
	return c
}

func defaults() *Config {
	return &Config{
		Database: Database{URL: "postgres://app@localhost:5432/shop", Schema: "inboxd"},
		Kafka: Kafka{
			Brokers: []string{"localhost:9092"}, Group: "shop-inbox",
			Topics: []string{}, TopicRefresh: 10 * time.Second, MaxBytes: 64 << 20, Format: "auto",
			Fields: Fields{
				EventID:     []string{"header:id", "$.eventId"},
				AggregateID: []string{"key", "$.orderId"},
				EventType:   []string{"header:eventType", "$.eventType"},
				Sequence:    []string{"$.version"},
				OccurredAt:  []string{},
			},
			Tombstones: "quarantine", Start: "oldest",
		},
		Lanes: Lanes{
			Workers: 16, Batch: 16, Order: "position",
			HandlerTimeout: 30 * time.Second, Lease: 10 * time.Second, Drain: 30 * time.Second,
			Retry: Retry{Initial: 200 * time.Millisecond, Max: time.Minute, Multiplier: 2, Jitter: 0.25, Attempts: 10,
				Permanent: []string{}, Transient: []string{}},
			Breaker: Breaker{Lanes: 5, Probe: time.Second, Max: 30 * time.Second},
		},
		Handlers:  map[string]Handler{},
		Retention: Retention{Processed: 168 * time.Hour},
	}
}

// complete fills in the defaults that depend on other values.
func (c *Config) complete() {
	if c.Database.MaxConnections == 0 {
		c.Database.MaxConnections = c.Lanes.Workers + extraConnections
	}
	for _, h := range c.Handlers {
		h.Webhook.complete(c.Lanes)
	}
}

// Redacted returns a copy for people to read: passwords in URLs are xxxxx.
func (c *Config) Redacted() *Config {
	r := *c
	r.Database = c.Database.redacted()
	r.Kafka.SASL = c.Kafka.SASL.redacted()
	r.Handlers = make(map[string]Handler, len(c.Handlers))
	for name, h := range c.Handlers {
		h.SQL = slices.Clone(h.SQL)
		if h.Webhook != nil {
			h.Webhook = h.Webhook.redacted()
		}
		r.Handlers[name] = h
	}
	return &r
}

func (d Database) redacted() Database {
	d.URL, d.DirectURL = RedactURL(d.URL), RedactURL(d.DirectURL)
	return d
}

// LogValue keeps passwords out of logs.
func (c *Config) LogValue() slog.Value { return slog.StringValue(c.String()) }

// Direct is the URL for what needs a session of its own.
func (d Database) Direct() string {
	if d.DirectURL != "" {
		return d.DirectURL
	}
	return d.URL
}

// LogValue keeps passwords out of logs.
func (d Database) LogValue() slog.Value { return slog.StringValue(d.String()) }
