package ordering

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

const (
	// echoLimit is how long a notification of its own may take to the listener.
	echoLimit = 5 * time.Second
	// deafDelay is how long a listener waits that heard none. It must not keep a
	// connection on which it hears nothing: behind a pooler, its LISTEN would
	// have some other client's session get all notifications.
	deafDelay = time.Minute
)

var errDeaf = errors.New("a notification did not arrive")

// connectListener opens the connection for LISTEN and sees that notifications
// arrive on it: one that leads to another database, or to a pooler in transaction
// mode, takes LISTEN without an error.
func (p *Processor) connectListener(ctx context.Context) (*pgx.Conn, error) {
	limited, cancel := context.WithTimeout(ctx, p.cfg.Lease+echoLimit)
	defer cancel()
	conn, err := p.cfg.Connect(limited)
	if err != nil {
		return nil, err
	}
	if err = p.echo(limited, conn); err == nil {
		if p.deaf {
			p.log.Info("notifications of new events arrive")
		}
		p.deaf = false
		return conn, nil
	}
	_ = conn.Close(limited)
	if errors.Is(err, errDeaf) && ctx.Err() == nil {
		p.reportDeaf()
		pause(ctx, deafDelay)
	}
	return nil, err
}

// echo has the pool notify a channel that nobody else hears.
func (p *Processor) echo(ctx context.Context, conn *pgx.Conn) error {
	channel := fmt.Sprintf("%s_echo_%d", p.cfg.Schema, p.id.Load())
	quoted := pgx.Identifier{channel}.Sanitize()
	if _, err := conn.Exec(ctx, "listen "+quoted); err != nil {
		return fmt.Errorf("listen to an echo: %w", err)
	}
	if _, err := p.pool.Exec(ctx, `select pg_notify($1, '')`, channel); err != nil {
		return fmt.Errorf("notify the listener: %w", err)
	}
	waiting, cancel := context.WithTimeout(ctx, echoLimit)
	defer cancel()
	_, heard := conn.WaitForNotification(waiting)
	if _, err := conn.Exec(ctx, "unlisten "+quoted); err != nil {
		return fmt.Errorf("listen to an echo: %w", err)
	}
	if heard != nil {
		return errDeaf
	}
	return nil
}

// reportDeaf says so once, until notifications arrive again.
func (p *Processor) reportDeaf() {
	if !p.deaf {
		p.log.Warn("notifications do not arrive on the connection for LISTEN, as behind a pooler in transaction mode or from another database: "+
			"new events wait for the sweep; set database.direct_url (of a Processor, Config.Connect) to lead to the same database past the pooler",
			"sweep", p.cfg.Sweep.String())
	}
	p.deaf = true
}

// pause waits, but not longer than ctx.
func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}
