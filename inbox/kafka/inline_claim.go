package kafka

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/IBM/sarama"
)

// inlineRecords is how many messages of a partition wait for the handler at most,
// however small they are.
const inlineRecords = 1024

// inlineClaim is a partition that a session has. drain is called by the client's
// goroutine and fills the queue, work empties it.
type inlineClaim struct {
	*Inline
	session sarama.ConsumerGroupSession
	queue   chan *sarama.ConsumerMessage // closed by drain's caller
	bytes   atomic.Int64                 // of the messages that wait or are handled
	taken   chan struct{}                // a message was done with
	ended   chan struct{}                // closed by work
}

func newInlineClaim(i *Inline, session sarama.ConsumerGroupSession) *inlineClaim {
	return &inlineClaim{
		Inline: i, session: session, queue: make(chan *sarama.ConsumerMessage, inlineRecords),
		taken: make(chan struct{}, 1), ended: make(chan struct{}),
	}
}

// drain carries messages into the queue until the session ends or there are no
// more: then the channel is closed, and gives nil for ever.
func (c *inlineClaim) drain(messages <-chan *sarama.ConsumerMessage) {
	done := c.session.Context().Done()
	for c.waitForRoom() {
		select {
		case <-done:
			return
		case <-c.ended:
			return
		case m, open := <-messages:
			if !open {
				return
			}
			c.bytes.Add(sizeOf(m))
			c.queue <- m // there is room
		}
	}
}

// waitForRoom waits, if the queue is full, until half of it is worked off. It
// reports whether there is any use in that.
func (c *inlineClaim) waitForRoom() bool {
	limit := int64(c.settings.bufferBytes)
	if c.bytes.Load() < limit && len(c.queue) < inlineRecords {
		return true
	}
	for c.bytes.Load() > limit/2 || len(c.queue) > inlineRecords/2 {
		select {
		case <-c.session.Context().Done():
			return false
		case <-c.ended:
			return false
		case <-c.taken:
		}
	}
	return true
}

func sizeOf(m *sarama.ConsumerMessage) int64 {
	size := len(m.Key) + len(m.Value)
	for _, h := range m.Headers {
		size += len(h.Key) + len(h.Value)
	}
	return int64(size)
}

// work handles one message after the other and marks each after its commit. When
// the session ends, what runs may go on for the grace, and nothing new begins.
func (c *inlineClaim) work() {
	defer close(c.ended)
	ctx, cancel := context.WithCancel(context.WithoutCancel(c.session.Context()))
	defer cancel()
	stop := context.AfterFunc(c.session.Context(), func() { time.AfterFunc(c.settings.grace, cancel) })
	defer stop()
	for m := range c.queue {
		if c.session.Context().Err() != nil || !c.handle(ctx, m) {
			return
		}
		c.session.MarkMessage(m, "")
		c.bytes.Add(-sizeOf(m))
		select {
		case c.taken <- struct{}{}:
		default:
		}
	}
}

// handle tries a message until it is done with, and reports whether it is: the
// end of the session ends it, too.
func (c *inlineClaim) handle(ctx context.Context, m *sarama.ConsumerMessage) bool {
	retry := newBackoff(c.settings.retryInitial, c.settings.retryMax)
	failed := 0
	var told time.Time
	for tries := 1; ; tries++ {
		err := c.attempt(ctx, m)
		if err == nil {
			if !told.IsZero() {
				c.settings.log.Info("A message was handled after all.", c.place(m, "failed_attempts", failed)...)
			}
			return true
		}
		if c.session.Context().Err() != nil {
			return false
		}
		counted := counts(err)
		if counted {
			failed++
			if c.passOver(ctx, m, failed, err) {
				return true
			}
		}
		if (counted || tries > 1) && time.Since(told) >= tellEvery { // two transactions may meet once
			told = time.Now()
			c.settings.log.Error("A message cannot be handled. It is tried again, and its partition waits behind it.",
				c.place(m, "failed_attempts", failed, "error", err)...)
		}
		if !sleep(c.session.Context(), retry.NextBackOff()) {
			return false
		}
	}
}

// tellEvery is how often the log hears of a message that goes on failing.
const tellEvery = time.Minute

// passOver asks the poison function about a message that has failed often enough,
// and reports whether it is done with.
func (c *inlineClaim) passOver(ctx context.Context, m *sarama.ConsumerMessage, failed int, cause error) bool {
	if c.giveUp == nil || failed < c.settings.attempts {
		return false
	}
	if err := c.giveUp(ctx, m, cause); err != nil {
		c.settings.log.Error("The poison function failed for a message; it is tried on.", c.place(m, "error", err)...)
		return false
	}
	c.settings.log.Error("A message was given up and passed over.",
		c.place(m, "failed_attempts", failed, "error", cause)...)
	return true
}

func (c *inlineClaim) place(m *sarama.ConsumerMessage, more ...any) []any {
	return append([]any{"topic", m.Topic, "partition", m.Partition, "offset", m.Offset, "consumer", c.settings.consumer}, more...)
}
