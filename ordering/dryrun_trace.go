package ordering

import (
	"context"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/inboxd/inboxd/handlers"
)

// recorder notes the statements that a handler sends on a connection, however it
// got at it.
type recorder struct {
	mu     sync.Mutex
	active bool
	sent   []DryRunStatement
}

var (
	_ pgx.QueryTracer    = (*recorder)(nil)
	_ pgx.BatchTracer    = (*recorder)(nil)
	_ pgx.CopyFromTracer = (*recorder)(nil)
)

func (r *recorder) begin() { r.set(true) }
func (r *recorder) end()   { r.set(false) }

func (r *recorder) set(active bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.active = active
}

// all is what was noted.
func (r *recorder) all() []DryRunStatement {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]DryRunStatement{}, r.sent...)
}

func (r *recorder) note(s DryRunStatement) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.active {
		r.sent = append(r.sent, s)
	}
}

type startedKey struct{}

// started is a statement on its way.
type started struct {
	sql string
	at  time.Time
}

func (r *recorder) start(ctx context.Context, sql string) context.Context {
	return context.WithValue(ctx, startedKey{}, started{sql, time.Now()})
}

func (r *recorder) finish(ctx context.Context, tag pgconn.CommandTag, err error) {
	s, ok := ctx.Value(startedKey{}).(started)
	if !ok {
		return
	}
	took := time.Since(s.at)
	r.note(DryRunStatement{SQL: s.sql, Rows: tag.RowsAffected(), Took: &took, Err: err})
}

// TraceQueryStart is called by pgx.
func (r *recorder) TraceQueryStart(ctx context.Context, _ *pgx.Conn, d pgx.TraceQueryStartData) context.Context {
	return r.start(ctx, d.SQL)
}

// TraceQueryEnd is called by pgx.
func (r *recorder) TraceQueryEnd(ctx context.Context, _ *pgx.Conn, d pgx.TraceQueryEndData) {
	r.finish(ctx, d.CommandTag, d.Err)
}

// TraceBatchStart is called by pgx.
func (r *recorder) TraceBatchStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceBatchStartData) context.Context {
	return ctx
}

// TraceBatchQuery is called by pgx.
func (r *recorder) TraceBatchQuery(_ context.Context, _ *pgx.Conn, d pgx.TraceBatchQueryData) {
	r.note(DryRunStatement{SQL: d.SQL, Rows: d.CommandTag.RowsAffected(), Err: d.Err})
}

// TraceBatchEnd is called by pgx.
func (r *recorder) TraceBatchEnd(context.Context, *pgx.Conn, pgx.TraceBatchEndData) {}

// TraceCopyFromStart is called by pgx.
func (r *recorder) TraceCopyFromStart(ctx context.Context, _ *pgx.Conn, d pgx.TraceCopyFromStartData) context.Context {
	return r.start(ctx, "copy "+d.TableName.Sanitize()+" from stdin")
}

// TraceCopyFromEnd is called by pgx.
func (r *recorder) TraceCopyFromEnd(ctx context.Context, _ *pgx.Conn, d pgx.TraceCopyFromEndData) {
	r.finish(ctx, d.CommandTag, d.Err)
}

// The server's clock stands between the statements of a queued handler: they
// are sent in one piece, as in a turn, and their answers come in one.
const clockSQL = `select pg_catalog.clock_timestamp()`

// queue has a queued handler add its statements, and sends them as a turn does.
func (d *dryRun) queue(ctx context.Context, entry *handlers.Entry, l *lane) error {
	queued := &pgx.Batch{}
	err := d.guard(ctx, entry, func(ctx context.Context) error {
		return entry.Handle(ctx, &handlers.Call{Events: l.messages(0, 1), Batch: queued})
	})
	if err != nil {
		return err
	}
	batch := &pgx.Batch{}
	batch.Queue(clockSQL)
	for _, q := range queued.QueuedQueries {
		batch.QueuedQueries = append(batch.QueuedQueries, q)
		batch.Queue(clockSQL)
	}
	d.rec.begin()
	clocks, err := send(d.conn.SendBatch(ctx, batch), batch)
	d.rec.end()
	d.rec.clock(clocks)
	return ended(err)
}

// send reads the answers, and those of the clocks among them.
func send(results pgx.BatchResults, batch *pgx.Batch) (clocks []time.Time, err error) {
	for i, q := range batch.QueuedQueries {
		switch {
		case i%2 == 0:
			var at time.Time
			err = results.QueryRow().Scan(&at)
			clocks = append(clocks, at)
		case q.Fn != nil:
			err = protect(func() error { return q.Fn(results) })
		default:
			_, err = results.Exec()
		}
		if err != nil {
			_ = results.Close() // repeats the error
			return clocks, err
		}
	}
	return clocks, results.Close()
}

// clock takes the clocks out of what was noted, and the times of the statements
// between them from them.
func (r *recorder) clock(clocks []time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var sent []DryRunStatement
	for _, s := range r.sent {
		if s.SQL == clockSQL {
			continue
		}
		if i := len(sent) + 1; i < len(clocks) && s.Err == nil {
			took := clocks[i].Sub(clocks[i-1])
			s.Took = &took
		}
		sent = append(sent, s)
	}
	r.sent = sent
}
