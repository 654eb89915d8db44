package ordering

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgxlisten"
)

// ConnectFunc opens a connection of its own each time it is called; whoever
// called it closes it.
type ConnectFunc func(ctx context.Context) (*pgx.Conn, error)

// connectLike opens connections with the pool's configuration.
func connectLike(pool *pgxpool.Pool) ConnectFunc {
	return func(ctx context.Context) (*pgx.Conn, error) {
		return pgx.ConnectConfig(ctx, pool.Config().ConnConfig.Copy())
	}
}

// reconnectDelay is how long the listener waits after its connection was lost.
const reconnectDelay = 500 * time.Millisecond

// listen hears of new events until ctx ends. It only signals; whatever it misses
// while its connection is away, the sweep that follows each connect finds.
func (p *Processor) listen(ctx context.Context) {
	listener := &pgxlisten.Listener{
		Connect: p.connectListener,
		LogError: func(ctx context.Context, err error) {
			if ctx.Err() == nil {
				p.log.Debug("listener: the connection was lost; the sweep goes on", "error", err.Error())
			}
		},
		ReconnectDelay: reconnectDelay,
	}
	listener.Handle(p.channel(), waker{p})
	_ = listener.Listen(ctx) // returns the context's error
}

// channel is where notifications come: of lanes that got events, and of processes
// that come or leave.
func (p *Processor) channel() string { return p.cfg.Schema + "_wake" }

type waker struct{ p *Processor }

func (w waker) HandleBacklog(context.Context, string, *pgx.Conn) error {
	w.p.sweeper.soon()
	return nil
}

func (w waker) HandleNotification(_ context.Context, n *pgconn.Notification, _ *pgx.Conn) error {
	from, names, known := strings.Cut(n.Payload, ":")
	if !known {
		names = n.Payload
	}
	switch {
	case known && from == strconv.Itoa(int(w.p.id.Load())) && w.p.told.Load():
		return nil // whoever stored them in this process said so at once
	case names == "members":
		signal(w.p.beatNow)
		return nil
	case names == "*":
		w.p.sweeper.soon()
		return nil
	}
	lanes, err := parseLanes(names)
	w.p.sched.wake(w.p.mine(lanes), false)
	return err
}

func parseLanes(payload string) ([]int64, error) {
	lanes := make([]int64, 0, strings.Count(payload, ",")+1)
	for part := range strings.SplitSeq(payload, ",") {
		id, err := strconv.ParseInt(part, 10, 64)
		if err != nil {
			return lanes, fmt.Errorf("read notification: %w", err)
		}
		lanes = append(lanes, id)
	}
	return lanes, nil
}
