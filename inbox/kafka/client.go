package kafka

import (
	"errors"
	"time"

	"github.com/IBM/sarama"
)

// What the clients are told besides the Config. The numbers hang together. A
// member waits for the others in a JoinGroup request, which they hold up for
// rebalanceTimeout at most, so an answer must be allowed to take longer than
// that: twice as long, since each member that joins meanwhile can begin the wait
// anew. And a broker that hangs is given up after readTimeout, and again after
// each try to reach it, so it must not be much longer.
const (
	dialTimeout        = 5 * time.Second
	firstAnswer        = 3 * time.Second // on a new connection
	rebalanceTimeout   = 5 * time.Second
	readTimeout        = 10 * time.Second
	controlReadTimeout = 5 * time.Second // where nothing waits for others
	metadataRetries    = 1
	maxWait            = 250 * time.Millisecond // of a fetch that finds nothing
	metadataRefresh    = 30 * time.Second

	// mostHeartbeat is the longest Config.Heartbeat: a rebalance may have begun that
	// long before the member hears of it.
	mostHeartbeat = time.Second
	// rebalanceGrace is how long a rebalance waits for the calls to Ingest that
	// run. The whole group waits with us; what is cut short is read again. What
	// is left of rebalanceTimeout is for the fetch that has to end before, for the
	// last commit and for joining, on machines that are busy: a member that comes
	// too late is none any more, and what it has stored comes again.
	rebalanceGrace = 2 * time.Second
)

// controlConfig is the configuration of the client that asks and commits.
func (s *Source) controlConfig(password string) *sarama.Config {
	c := s.clientConfig(password)
	c.Net.Proxy.Dialer = s.dialer
	c.Net.ReadTimeout = controlReadTimeout
	c.Net.WriteTimeout = controlReadTimeout
	return c
}

// clientConfig is the configuration of the client that fetches. The password is
// that of SASL's PLAIN.
func (s *Source) clientConfig(password string) *sarama.Config {
	c := sarama.NewConfig()
	c.Version = sarama.V4_0_0_0 // what a broker lacks is found out, see ApiVersionsRequest
	c.ApiVersionsRequest = true
	c.ClientID = s.cfg.ClientID
	c.ChannelBufferSize = 8 // records of a partition, which are taken from it at once, but nobody counts them before

	c.Net.DialTimeout = dialTimeout
	c.Net.ReadTimeout = readTimeout
	c.Net.WriteTimeout = readTimeout
	c.Net.Proxy.Enable = true
	if s.cfg.SASL != nil {
		s.cfg.SASL.authenticate(c, password)
	}

	c.Metadata.Full = false // nothing is asked, and no broker needed, before Run
	c.Metadata.AllowAutoTopicCreation = false
	c.Metadata.RefreshFrequency = min(metadataRefresh, s.cfg.TopicRefresh)
	c.Metadata.Retry.Max = metadataRetries

	c.Consumer.Return.Errors = true
	c.Consumer.IsolationLevel = sarama.ReadCommitted
	c.Consumer.MaxWaitTime = maxWait
	c.Consumer.MaxProcessingTime = time.Second // claims are drained at once
	// A fetch is counted as it is sent, and may be many times as much unpacked. A
	// partition has a quarter of it: the broker fills them in the order in which
	// they are asked for. A batch of a producer comes whole, however large.
	// The connection asks for less if it must, see meters.
	c.Net.Proxy.Dialer = meteredDialer{s.dialer, s.meters}
	c.Consumer.Fetch.MaxBytes = s.cfg.fetchBytes()
	c.Consumer.Fetch.Default = c.Consumer.Fetch.MaxBytes / 4
	c.Consumer.Retry.BackoffFunc = func(retries int) time.Duration {
		s.lookAtTopics() // a partition is searched anew: was its topic made anew?
		return min(time.Duration(retries)*500*time.Millisecond, 5*time.Second)
	}

	c.Consumer.Offsets.Initial = sarama.OffsetOldest
	c.Consumer.Offsets.AutoCommit.Enable = false
	g := &c.Consumer.Group
	g.ResetInvalidOffsets = false
	g.InstanceId = s.cfg.InstanceID
	g.Session.Timeout = s.cfg.SessionTimeout
	g.Heartbeat.Interval = s.cfg.Heartbeat
	g.Rebalance.Timeout = rebalanceTimeout
	g.Rebalance.Retry.Backoff = 500 * time.Millisecond
	g.Rebalance.GroupStrategies = []sarama.BalanceStrategy{sarama.NewBalanceStrategySticky()}
	return c
}

// patientClient is the client of the consumer group. A partition that has no
// leader is no reason for it not to read the others: the group's own client
// takes it for a failure of its whole topic.
type patientClient struct{ sarama.Client }

// RefreshMetadata overrides the client's.
func (c patientClient) RefreshMetadata(topics ...string) error {
	err := c.Client.RefreshMetadata(topics...)
	if err != nil && onlyLeaderless(err) {
		return nil
	}
	return err
}

// onlyLeaderless reports whether every error that err joins is of a partition
// without a leader.
func onlyLeaderless(err error) bool {
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok {
		return errors.Is(err, sarama.ErrLeaderNotAvailable)
	}
	for _, e := range joined.Unwrap() {
		if !onlyLeaderless(e) {
			return false
		}
	}
	return len(joined.Unwrap()) > 0
}
