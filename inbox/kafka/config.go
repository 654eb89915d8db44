package kafka

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"slices"
	"time"

	"github.com/inboxd/inboxd/inbox"
)

// Sink stores records.
type Sink interface {
	// Ingest stores the records in one database transaction and returns nil
	// only after it has committed; offsets are committed to Kafka after that.
	// It may be called from several goroutines at once, but the records of one
	// partition come in the order of their offsets, and never in two calls at
	// the same time. A record may come again: after an error, and whenever the
	// group was rebalanced or a process died before an offset was committed.
	//
	// An error means that nothing was stored. The same records come again,
	// with backoff, for as long as it takes: there is no error that drops a
	// record, so what can never be stored must be put aside by the sink itself.
	//
	// Ingest must return soon after ctx is done. The slice is used again after
	// it returned; what the records point to is not.
	Ingest(ctx context.Context, records []inbox.Record) error
}

// Config configures a Source. Brokers, Group and Topics are needed; the zero
// value of every other field means its default.
type Config struct {
	// Brokers are the addresses, host:port, to find the cluster by.
	Brokers []string
	// Group is the consumer group.
	Group string
	// Topics are the topics to read. One that does not exist is waited for,
	// while the others are read. One that begins with ^ is a regular expression
	// (RE2) for the whole names of topics: those that match are read, also ones
	// that are made later, except for Kafka's own, whose names begin with two
	// underscores.
	Topics []string
	// InstanceID makes the process a static member of the group: one that is
	// back within SessionTimeout gets its partitions again, and the others do not
	// notice. It must be another in each process of the group; of two with the
	// same, Run of the first ends with ErrFenced. A static member does not leave
	// the group when it stops. Empty: a member like others.
	InstanceID string
	// TLS encrypts the connections. Nil: they are not encrypted.
	TLS *TLS
	// SASL says who the process is. Nil: it does not say. Without TLS, others
	// on the network can read or misuse what it says.
	SASL *SASL
	// ClientID names this process in the broker's logs and quotas. Default:
	// inboxd.
	ClientID string
	// Start is where a partition begins that the group has no offset for when
	// it reads the topic for the first time. Partitions and topics that are
	// added later are read from their beginning. Default: Oldest.
	Start Start
	// Remembered answers positions that are known from elsewhere, of any topics. It
	// is asked when the group has no offset of a partition, as Kafka forgets those
	// of a group that was away for long: one that is of the topic that there is
	// now counts as the group's offset. Until it answers, nothing is read. Default:
	// nothing is remembered.
	Remembered func(context.Context) ([]Remembered, error)

	// BufferBytes bounds the records that are held in memory, over all
	// partitions. Three quarters are for records that wait to be stored: when they
	// are used up, nothing is fetched but a little of partitions that hold nothing.
	// The rest is for what the client holds, up to two fetches from each broker:
	// each brings a 128th, but at least 64 KiB, or one batch of a producer if that
	// is larger. What is compressed counts as it will be once it is unpacked, by what
	// the last fetches were. Default: 64 MiB.
	BufferBytes int
	// BatchRecords bounds the records of one call to Ingest. Default: 4000.
	BatchRecords int
	// BatchBytes bounds the bytes of one call to Ingest, and so does an eighth of
	// BufferBytes; a record that is larger comes alone. Default: 8 MiB.
	BatchBytes int
	// Workers is how many calls to Ingest run at once. Default: 4.
	Workers int

	// CommitInterval is the least time between two commits of offsets. The
	// first record after a pause is committed at once. Default: 1 s.
	CommitInterval time.Duration
	// TopicRefresh is how often topics are looked at: for new ones, new
	// partitions and ones that were deleted and made again. At most 30 s.
	// Default: 10 s.
	TopicRefresh time.Duration
	// SessionTimeout is how long the group waits for a member not heard of
	// before it gives its partitions to others. Default: 10 s.
	SessionTimeout time.Duration
	// Heartbeat is how often the member is heard of, and hears that the group is
	// rebalanced: at least every second, and three times in SessionTimeout.
	// Default: 1 s.
	Heartbeat time.Duration
	// StopTimeout is how long a stop waits for the calls to Ingest that run
	// before it cancels them. Default: 10 s.
	StopTimeout time.Duration
	// LeaveTimeout is how long a stop waits, after that, for the broker to
	// take the last offsets and to let the member go. Default: 5 s.
	LeaveTimeout time.Duration

	// Log is where the source reports to; it never logs keys, values or
	// headers. Default: slog.Default().
	Log *slog.Logger
}

// Remembered is how far a partition was read: all before Position was stored, and
// TopicID is that of the PartitionStats that it is from.
type Remembered struct {
	Topic     string
	Partition int32
	TopicID   string
	Position  int64
}

// Start says where a partition begins for which the group has no offset. The
// zero Start is Oldest.
type Start struct {
	newest bool
	at     time.Time
}

var (
	// Oldest starts with the first record there is.
	Oldest = Start{}
	// Newest starts with the first record written after the group's first start.
	Newest = Start{newest: true}
)

// StartAt starts with the first record whose time is at or after t.
func StartAt(t time.Time) Start { return Start{at: t} }

// ParseStart parses "oldest", "newest" or an RFC 3339 time. Empty is Oldest.
func ParseStart(s string) (Start, error) {
	switch s {
	case "", "oldest":
		return Oldest, nil
	case "newest":
		return Newest, nil
	}
	t, err := time.Parse(time.RFC3339Nano, s)
	if err != nil {
		return Start{}, fmt.Errorf(`the start %q is neither "oldest" nor "newest" nor an RFC 3339 time`, s)
	}
	return StartAt(t), nil
}

// String is what ParseStart parses.
func (s Start) String() string {
	switch {
	case s.newest:
		return "newest"
	case !s.at.IsZero():
		return s.at.Format(time.RFC3339Nano)
	default:
		return "oldest"
	}
}

func orElse[T comparable](v *T, otherwise T) {
	var zero T
	if *v == zero {
		*v = otherwise
	}
}

func (c Config) withDefaults() Config {
	orElse(&c.ClientID, "inboxd")
	orElse(&c.BufferBytes, 64<<20)
	orElse(&c.BatchRecords, 4000)
	orElse(&c.BatchBytes, 8<<20)
	orElse(&c.Workers, 4)
	orElse(&c.CommitInterval, time.Second)
	orElse(&c.TopicRefresh, 10*time.Second)
	orElse(&c.SessionTimeout, 10*time.Second)
	orElse(&c.Heartbeat, time.Second)
	orElse(&c.StopTimeout, 10*time.Second)
	orElse(&c.LeaveTimeout, 5*time.Second)
	orElse(&c.Log, slog.Default())
	c.Topics = slices.Compact(slices.Sorted(slices.Values(c.Topics)))
	return c
}

var instanceIDs = regexp.MustCompile(`^[a-zA-Z0-9._-]{0,249}$`)

// validate says in whole sentences what is wrong with a Config that has its
// defaults.
func (c Config) validate() error {
	var errs []error
	need := func(ok bool, sentence string) {
		if !ok {
			errs = append(errs, errors.New(sentence))
		}
	}
	need(len(c.Brokers) > 0 && !slices.Contains(c.Brokers, ""), "The brokers must be one or more addresses, host:port.")
	need(c.Group != "", "The consumer group needs a name.")
	need(len(c.Topics) > 0 && !slices.Contains(c.Topics, ""), "The topics must be one or more names.")
	for _, t := range c.Topics {
		_, err := parseTopic(t)
		need(err == nil, fmt.Sprintf("The topic %q begins with ^ and is no regular expression: %v.", t, err))
	}
	need(instanceIDs.MatchString(c.InstanceID), "The instance id must have at most 249 letters, digits, dots, dashes and underscores.")
	need(c.BufferBytes > 0 && c.BatchRecords > 0 && c.BatchBytes > 0 && c.Workers > 0,
		"The buffer, the batches and the workers must be larger than 0.")
	need(c.CommitInterval > 0 && c.Heartbeat > 0 && c.StopTimeout > 0 && c.LeaveTimeout > 0,
		"The intervals and time-outs must be longer than 0.")
	need(c.TopicRefresh > 0 && c.TopicRefresh <= 30*time.Second,
		"Topics must be looked at every 30 seconds at least, or records of one that is deleted and made again come late.")
	need(c.Heartbeat <= mostHeartbeat, "Heartbeats must come every second at least, or a rebalance is heard of too late to take part in it.")
	need(c.Heartbeat <= c.SessionTimeout/3, "The session time-out must be at least three heartbeats.")
	return errors.Join(append(errs, c.validateSecurity()...)...)
}
