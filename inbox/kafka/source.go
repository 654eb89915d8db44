package kafka

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/IBM/sarama"
)

// ErrCutShort is returned by Run when a stop had to cancel calls to Ingest that
// took longer than the StopTimeout. What they were to store comes again.
var ErrCutShort = errors.New("storing records took longer than the stop may last, and was cut short")

// ErrFenced is returned by Run when another process has joined the group with the
// same Config.InstanceID: the group has given this process's place to it.
var ErrFenced = errors.New("another process has joined the group with the same instance id")

// errStopping keeps a session from beginning while the source stops.
var errStopping = errors.New("the source stops")

// Source reads topics as a member of a consumer group and gives their records
// to a Sink.
type Source struct {
	cfg  Config
	sink Sink
	log  *slog.Logger

	ran     atomic.Bool
	dialer  *dialer
	meters  *meters
	clients                // replaced by renew, between two sessions
	running sync.WaitGroup // of what Run has started
	failed  chan error     // why loop has given up
	topics  *topics
	look    chan struct{} // has an element when watch is to look at once
	often   often

	mu          sync.Mutex
	session     *session         // nil between two
	final       []PartitionStats // of the last session, once the source stops
	stopping    bool
	lastError   string
	lastErrorAt time.Time
}

// New returns a source, or says in whole sentences what is wrong with cfg. It
// connects to nothing.
func New(cfg Config, sink Sink) (*Source, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	s := &Source{
		cfg: cfg, sink: sink, log: cfg.Log,
		dialer: newDialer(), meters: newMeters(cfg), topics: newTopics(cfg.Topics), look: make(chan struct{}, 1), failed: make(chan error, 1),
	}
	s.dialer.tls = cfg.TLS
	return s, nil
}

// Run reads until ctx is done, and returns nil after a clean stop. A broker that
// is away, a topic that does not exist and a Sink that fails are waited for.
//
// When ctx is done it takes no more records, lets the calls to Ingest that run
// finish, commits what they have stored, leaves the group and returns. If that
// takes longer than StopTimeout, the calls are cancelled and the error is
// ErrCutShort; if the broker takes longer than LeaveTimeout, it is left to find
// out by itself, which is no error: what was not committed comes again.
//
// Run may be called once.
func (s *Source) Run(ctx context.Context) error {
	if s.ran.Swap(true) {
		return errors.New("the source has run already")
	}
	defer s.dialer.cut()
	first, err := s.connect()
	if err != nil {
		return err
	}
	s.warnOfSASLInTheClear()
	s.clients = first
	loop, endLoop := context.WithCancel(context.WithoutCancel(ctx))
	defer endLoop()
	s.running.Go(func() { s.loop(loop) })
	s.running.Go(func() { s.readErrors(first.group) })
	select {
	case <-ctx.Done():
	case err = <-s.failed:
	}
	return errors.Join(err, s.stop(endLoop))
}

// loop joins the group again and again.
func (s *Source) loop(ctx context.Context) {
	retry := newBackoff(250*time.Millisecond, 5*time.Second)
	for {
		s.renew()
		infos := s.awaitTopics(ctx)
		if infos == nil {
			return
		}
		sess, err := s.consume(ctx, infos)
		if ctx.Err() != nil {
			return
		}
		if errors.Is(err, sarama.ErrFencedInstancedId) || errors.Is(sess.cause, sarama.ErrFencedInstancedId) {
			s.failed <- fmt.Errorf("%w, %q, which must be another in each process", ErrFenced, s.cfg.InstanceID)
			return
		}
		if err != nil {
			s.trouble("group", "The group could not be joined. It is tried again until it can.", err)
		}
		if sess.lasted() > 10*time.Second || sess.endedWell() {
			s.better("group", "The group was joined again.")
			retry.Reset()
		}
		if !sess.endedWell() {
			sleep(ctx, retry.NextBackOff())
		}
	}
}

// consume is one session, from joining the group until it ends. Its topics are
// watched meanwhile.
func (s *Source) consume(ctx context.Context, infos map[string]topicInfo) (*session, error) {
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	sess := s.newSession(ctx, end)
	var watching sync.WaitGroup
	watching.Go(func() { end(s.watch(ctx, infos)) })
	err := s.group.Consume(ctx, names(infos), sess)
	if cause := context.Cause(ctx); errors.Is(cause, errTopicsChanged) || errors.Is(cause, errPasswordChanged) {
		sess.cause, err = cause, nil // perhaps before it was joined
	}
	end(nil)
	watching.Wait()
	return sess, err
}

// readErrors logs what the client reports beside its answers. The client drops
// what is not read.
func (s *Source) readErrors(group sarama.ConsumerGroup) {
	for err := range group.Errors() {
		matter := "client"
		var of *sarama.ConsumerError
		if errors.As(err, &of) {
			matter += " " + of.Topic
			if sess := s.current(); sess != nil {
				sess.queue.noteError(partitionID{of.Topic, of.Partition}, of.Err)
			}
		}
		if errors.Is(err, sarama.ErrUnknownTopicOrPartition) {
			s.lookAtTopics()
		}
		s.trouble(matter, "The Kafka client reports an error. It goes on by itself.", err)
	}
}

// enter makes a session the current one, unless the source stops.
func (s *Source) enter(sess *session) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopping {
		return false
	}
	s.session = sess
	return true
}

// leave ends what enter began.
func (s *Source) leave(sess *session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.session == sess {
		s.session = nil
	}
	if s.stopping {
		s.final = sess.queue.stats()
	}
}

// current is the session, or nil between two.
func (s *Source) current() *session {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.session
}

// stop ends everything that Run has started.
func (s *Source) stop(endLoop context.CancelFunc) error {
	s.mu.Lock()
	s.stopping = true
	sess, clients := s.session, s.clients
	s.mu.Unlock()
	clients.group.PauseAll()

	ended := make(chan error, 1)
	go func() {
		var err error
		if sess != nil && sess.drain(s.cfg.StopTimeout) {
			err = fmt.Errorf("%w after %v", ErrCutShort, s.cfg.StopTimeout)
		}
		cut := time.AfterFunc(s.cfg.LeaveTimeout, func() {
			s.log.Warn("The broker takes too long to let the member go; it is left to find out by itself.",
				"group", s.cfg.Group, "time_out", s.cfg.LeaveTimeout.String())
			s.dialer.cut()
		})
		defer cut.Stop()
		endLoop()
		clients.close()
		s.running.Wait()
		ended <- err
	}()

	limit := time.NewTimer(s.cfg.StopTimeout + s.cfg.LeaveTimeout + stopMargin)
	defer limit.Stop()
	select {
	case err := <-ended:
		return err
	case <-limit.C:
		return fmt.Errorf("%w: a call to Ingest did not return after its context was cancelled", ErrCutShort)
	}
}

// stopMargin is what a stop may take beyond its two time-outs.
const stopMargin = 5 * time.Second
