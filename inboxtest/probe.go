package inboxtest

import (
	"context"
	"errors"
	"strings"
	"sync"

	"github.com/jackc/pgx/v5"

	"github.com/inboxd/inboxd/handlers"
)

// plan says what goes wrong when. Its methods are called from several goroutines,
// one at a time for one attempt.
type plan interface {
	// begin is told of an attempt that begins.
	begin(ctx context.Context, a *attempt)
	// fails says whether a statement that the attempt is about to send has to fail.
	fails(a *attempt, sql string) bool
	// end is told how the attempt ended, and answers what it ends with.
	end(a *attempt, err error) error
	// commit is told that a lane's transaction is about to commit on a connection.
	commit(w *wire)
}

// noFaults is the plan by which all goes well.
type noFaults struct{}

func (noFaults) begin(context.Context, *attempt) {}
func (noFaults) fails(*attempt, string) bool     { return false }
func (noFaults) end(_ *attempt, err error) error { return err }
func (noFaults) commit(*wire)                    {}

// attempt is one call of a handler.
type attempt struct {
	events []*handlers.Message
	// queued: the handler only queues statements, and does not see them fail.
	queued bool
	// statements counts those that were sent so far.
	statements int
	// failed is the statement that was made to fail, "" for none, and failedAt its
	// number.
	failed   string
	failedAt int
}

// errFault is in every error that the kit has made.
var errFault = errors.New("made to fail by inboxtest")

// faultSQL fails in the server, so that the transaction fails with it.
const faultSQL = `do $$begin raise exception 'made to fail by inboxtest'; end$$`

// probe sits on the connections of the kit's pool. It knows from its middleware
// which connection a handler is using, and sees, as a tracer, every statement on
// it: also those that go past the transaction that the handler was given.
type probe struct {
	mu    sync.Mutex
	plan  plan
	calls map[*pgx.Conn]*attempt // of the handlers that are at work
}

var (
	_ pgx.QueryTracer    = (*probe)(nil)
	_ pgx.BatchTracer    = (*probe)(nil)
	_ pgx.CopyFromTracer = (*probe)(nil)
)

func newProbe() *probe { return &probe{plan: noFaults{}, calls: map[*pgx.Conn]*attempt{}} }

// follow has the probe follow a plan.
func (p *probe) follow(next plan) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.plan = next
}

func (p *probe) current() plan {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.plan
}

// middleware tells the probe what handlers are doing.
func (p *probe) middleware(next handlers.Handler) handlers.Handler {
	return func(ctx context.Context, call *handlers.Call) error {
		plan := p.current()
		a := &attempt{events: call.Events, queued: call.Tx == nil}
		plan.begin(ctx, a)
		if !a.queued {
			return plan.end(a, p.watch(call.Tx.Conn(), a, func() error { return next(ctx, call) }))
		}
		before := len(call.Batch.QueuedQueries)
		err := next(ctx, call)
		if err == nil {
			p.spoil(plan, a, call.Batch.QueuedQueries[before:])
		}
		return plan.end(a, err)
	}
}

// watch has the statements on a connection counted as those of the attempt while
// f runs.
func (p *probe) watch(conn *pgx.Conn, a *attempt, f func() error) error {
	p.mu.Lock()
	p.calls[conn] = a
	p.mu.Unlock()
	defer func() {
		p.mu.Lock()
		delete(p.calls, conn)
		p.mu.Unlock()
	}()
	return f()
}

// on is the attempt that is using a connection, or nil.
func (p *probe) on(conn *pgx.Conn) (*attempt, plan) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.calls[conn], p.plan
}

// next counts a statement and says whether it has to fail.
func (a *attempt) next(plan plan, sql string) bool {
	if isRollback(sql) {
		return false // it would hide that something failed
	}
	a.statements++
	if a.failed != "" || !plan.fails(a, sql) {
		return false
	}
	a.failed, a.failedAt = sql, a.statements
	return true
}

func isRollback(sql string) bool {
	return strings.HasPrefix(strings.ToLower(strings.TrimSpace(sql)), "rollback")
}

// spoil replaces the queued statement that has to fail.
func (p *probe) spoil(plan plan, a *attempt, queued []*pgx.QueuedQuery) {
	for i, q := range queued {
		if a.next(plan, q.SQL) {
			bad := *q
			bad.SQL, bad.Arguments = faultSQL, nil
			queued[i] = &bad
		}
	}
}

// failNow fails the transaction of a connection, and with it its next statement.
func failNow(ctx context.Context, conn *pgx.Conn) {
	_, _ = conn.PgConn().Exec(ctx, faultSQL).ReadAll() // it fails: that is what it is for
}

// TraceQueryStart implements pgx.QueryTracer.
func (p *probe) TraceQueryStart(ctx context.Context, conn *pgx.Conn, data pgx.TraceQueryStartData) context.Context {
	a, plan := p.on(conn)
	switch {
	case a != nil && a.next(plan, data.SQL):
		failNow(ctx, conn)
	case a == nil && data.SQL == "commit":
		plan.commit(wireOf(conn))
	}
	return ctx
}

// TraceQueryEnd implements pgx.QueryTracer.
func (*probe) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// TraceBatchStart implements pgx.BatchTracer.
func (p *probe) TraceBatchStart(ctx context.Context, conn *pgx.Conn, data pgx.TraceBatchStartData) context.Context {
	a, plan := p.on(conn)
	if a != nil {
		p.spoil(plan, a, data.Batch.QueuedQueries)
		return ctx
	}
	for _, q := range data.Batch.QueuedQueries {
		if q.SQL == "commit" {
			plan.commit(wireOf(conn))
		}
	}
	return ctx
}

// TraceBatchQuery implements pgx.BatchTracer.
func (*probe) TraceBatchQuery(context.Context, *pgx.Conn, pgx.TraceBatchQueryData) {}

// TraceBatchEnd implements pgx.BatchTracer.
func (*probe) TraceBatchEnd(_ context.Context, conn *pgx.Conn, _ pgx.TraceBatchEndData) {
	wireOf(conn).disarm()
}

// TraceCopyFromStart implements pgx.CopyFromTracer.
func (p *probe) TraceCopyFromStart(ctx context.Context, conn *pgx.Conn, data pgx.TraceCopyFromStartData) context.Context {
	if a, plan := p.on(conn); a != nil && a.next(plan, "copy "+data.TableName.Sanitize()) {
		failNow(ctx, conn)
	}
	return ctx
}

// TraceCopyFromEnd implements pgx.CopyFromTracer.
func (*probe) TraceCopyFromEnd(context.Context, *pgx.Conn, pgx.TraceCopyFromEndData) {}
