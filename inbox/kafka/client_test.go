package kafka

import (
	"errors"
	"fmt"
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/IBM/sarama"
)

func TestOnlyLeaderless(t *testing.T) {
	none := fmt.Errorf("t: %w", sarama.ErrLeaderNotAvailable)
	for want, errs := range map[bool][]error{
		true:  {none, errors.Join(none, none), errors.Join(errors.Join(none))},
		false: {sarama.ErrUnknownTopicOrPartition, errors.Join(none, sarama.ErrOutOfBrokers), errors.Join(none, errors.Join(none, io.EOF))},
	} {
		for _, err := range errs {
			if onlyLeaderless(err) != want {
				t.Errorf("%q: %v", err, !want)
			}
		}
	}
}

// A member that hears of a rebalance as late as it may, and whose calls to Ingest
// take as long as they may, has time left to commit and to join, also on a machine
// that is busy: the group gives it up otherwise.
func TestRebalanceLeavesTimeToJoin(t *testing.T) {
	if left := rebalanceTimeout - mostHeartbeat - maxWait - rebalanceGrace; left < 1500*time.Millisecond {
		t.Errorf("%v are left", left)
	}
	if heartbeat := (Config{}).withDefaults().Heartbeat; heartbeat > mostHeartbeat {
		t.Errorf("heartbeats come every %v", heartbeat)
	}
}

// deadlineConn notes the deadline it was given and has something to read.
type deadlineConn struct {
	net.Conn
	until time.Time
}

func (c *deadlineConn) SetReadDeadline(t time.Time) error { c.until = t; return nil }
func (c *deadlineConn) Read(p []byte) (int, error)        { return len(p), nil }
func (c *deadlineConn) Close() error                      { return nil }

func TestFirstAnswerIsDueSooner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner := &deadlineConn{}
		c := &trackedConn{Conn: inner, dialer: newDialer()}
		wait := func(d time.Duration) time.Duration {
			if err := c.SetReadDeadline(time.Now().Add(d)); err != nil {
				t.Fatal(err)
			}
			return time.Until(inner.until)
		}
		if got := wait(readTimeout); got != firstAnswer {
			t.Errorf("a new connection waits for %v", got)
		}
		if got := wait(time.Second); got != time.Second {
			t.Errorf("a shorter wait became %v", got)
		}
		if _, err := c.Read(make([]byte, 1)); err != nil {
			t.Fatal(err)
		}
		if got := wait(readTimeout); got != readTimeout {
			t.Errorf("a connection that has answered waits for %v", got)
		}
	})
}

func TestCutDialer(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	d := newDialer()
	c, err := d.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	read := make(chan error)
	go func() {
		_, err := c.Read(make([]byte, 1))
		read <- err
	}()
	d.cut()
	if err := <-read; !errors.Is(err, net.ErrClosed) {
		t.Errorf("a read ended with %v", err)
	}
	if _, err := d.Dial("tcp", l.Addr().String()); err == nil {
		t.Error("it still connects")
	}
	_ = c.Close()
}

func TestOften(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var o often
		if _, was := o.over("x"); was {
			t.Error("what never began is over")
		}
		allowed := 0
		for range 100 {
			if _, ok := o.allow("x"); ok {
				allowed++
			}
			time.Sleep(time.Second)
		}
		if allowed != 2 {
			t.Errorf("logged %d times in 100 seconds", allowed)
		}
		if _, ok := o.allow("y"); !ok {
			t.Error("another matter was held back")
		}
		if held, ok := o.allow("x"); ok || held != 0 {
			t.Errorf("allowed %v with %d held", ok, held)
		}
		time.Sleep(logInterval)
		if held, ok := o.allow("x"); !ok || held != 40 {
			t.Errorf("allowed %v with %d held", ok, held)
		}
		if since, was := o.over("x"); !was || time.Since(since) < 2*time.Minute {
			t.Errorf("over %v since %v", was, since)
		}
		if _, ok := o.allow("x"); !ok {
			t.Error("a new occasion was held back")
		}
	})
}
