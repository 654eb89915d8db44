package ordering

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/inboxd/inboxd/internal/fault"
)

// careful runs the head of a lane whose last run ended without a word: its
// process died, or lost its connection. The attempt is counted, and that is
// committed, before the handler starts; if the process dies again, the attempt
// is used up. An attempt that ends in any other way takes the count back. So do
// the events behind it that may have been in the same turn, one after the other.
//
// Lanes that were in flight beside the guilty one are counted too, once; from
// the second time on they run one at a time in this process, so that whoever is
// running when it dies is the one.
func (p *Processor) careful(ctx context.Context, w *worker, conn *pgx.Conn, l *lane) error {
	used := l.attempts + l.crashes
	attempts := p.policies.of(l.head().Type).Attempts
	if l.crashes > 0 && !l.stale && used >= attempts {
		return p.giveUp(ctx, conn, l)
	}
	if l.crashes > 0 || used+1 >= attempts {
		if !p.suspect.TryLock() {
			l.forgetRest() // its turn comes when the other suspect is done
			return nil
		}
		defer p.suspect.Unlock()
	}
	if l.stale {
		if _, err := conn.Exec(ctx, p.sql.endCareful, p.id.Load(), l.id, l.cursor); err != nil {
			l.forgetRest() // somebody runs it, or the database is away
			return outageOnly(conn, err)
		}
		l.stale = false
	}
	var counted *int
	var carefulTo *int64
	if err := conn.QueryRow(ctx, p.sql.beginCareful, p.id.Load(), l.id, l.cursor, l.version, p.cfg.Batch).Scan(&counted, &carefulTo); err != nil {
		l.forget()
		return outageOnly(conn, err)
	}
	if counted == nil {
		l.forgetRest()
		return nil
	}
	l.crashes = *counted - l.attempts
	l.version++
	l.carefulTo = *carefulTo
	l.singles = max(l.singles, 1)
	err := p.runTogether(ctx, w, conn, []*lane{l})
	if l.crashes > 0 && l.failed == nil {
		p.takeBack(conn, l)
	}
	return err
}

// takeBack uncounts an attempt that neither succeeded nor failed: a conflict,
// an outage, a stop.
func (p *Processor) takeBack(conn *pgx.Conn, l *lane) {
	l.stale = true
	if conn.IsClosed() {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), p.cfg.Lease)
	defer cancel()
	if _, err := conn.Exec(ctx, p.sql.endCareful, p.id.Load(), l.id, l.cursor); err == nil {
		l.stale = false
		l.forget() // what others counted still stands
	}
}

// giveUp makes a lane stuck whose head has used up its attempts in processes
// that died.
func (p *Processor) giveUp(ctx context.Context, conn *pgx.Conn, l *lane) error {
	err := fmt.Errorf("%w: it was running when %d of them ended", ErrCrashes, l.crashes)
	c := describe(err)
	var given bool
	if err := conn.QueryRow(ctx, p.sql.giveUp, l.id, l.cursor, c.message, c.fingerprint, p.id.Load()).Scan(&given); err != nil {
		l.forget()
		if fault.Of(err) == fault.Event {
			return fmt.Errorf("give up lane %d: %w", l.id, err)
		}
		return outageOnly(conn, err)
	}
	if !given {
		l.forgetRest()
		return nil
	}
	f := &failure{position: l.cursor + 1, err: err}
	p.report(l, f, verdict{stuck: true})
	p.hooks.fell(l, f, verdict{stuck: true})
	l.forgetRest()
	return nil
}
