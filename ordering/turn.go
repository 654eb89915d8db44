package ordering

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/inboxd/inboxd/handlers"
	"github.com/inboxd/inboxd/internal/fault"
)

// turn is one transaction that runs events of one or several lanes, or a chain of
// transactions that run one lane. Statements are gathered and sent together: a
// turn of queued handlers goes to the server in one piece, from begin to commit.
type turn struct {
	p     *Processor
	w     *worker
	conn  *pgx.Conn
	lanes []*lane
	plans []plan

	batch    *pgx.Batch
	settings settings
	owners   []owner // whose each gathered statement is
	open     bool    // a transaction is open on the server
	began    time.Time

	claimed  int  // which gathered statement claims the lanes
	controls bool // a handler's statement may end the transaction
	taken    bool // not each transaction ends with advance

	commits   []int // how many of plans each gathered commit completes
	committed int   // how many of plans are committed
	ahead     *ahead

	isolation pgx.TxIsoLevel // "": read committed
}

// beginSQL begins a turn's transaction.
var beginSQL = map[pgx.TxIsoLevel]string{
	"":                  "begin isolation level read committed",
	pgx.ReadUncommitted: "begin isolation level read uncommitted",
	pgx.ReadCommitted:   "begin isolation level read committed",
	pgx.RepeatableRead:  "begin isolation level repeatable read",
	pgx.Serializable:    "begin isolation level serializable",
}

// commit ends a transaction, commitAndBegin one of a chain that another one follows.
const (
	commit         = "commit"
	commitAndBegin = "commit and chain"
)

// isolation is that of the lane's next turn: its head's.
func (p *Processor) isolation(l *lane) pgx.TxIsoLevel {
	if entry := p.entries[l.head().Type]; entry != nil {
		return entry.Isolation
	}
	return ""
}

// apart reports that the lane's head has a transaction of its own, which neither
// other lanes nor the events behind it share.
func (p *Processor) apart(l *lane) bool {
	if len(l.events) == 0 {
		return false
	}
	entry := p.entries[l.head().Type]
	return entry != nil && entry.OwnTransaction
}

// plan is what a transaction does for one lane: n of its events from one on.
type plan struct {
	lane    *lane
	from, n int
}

// owner says which event a statement belongs to.
type owner struct {
	lane  *lane
	index int // of the event among the lane's; -1: the statement is the lane's own or nobody's
}

// nobody owns what the turn itself gathers.
var nobody = owner{index: -1}

// turnError is why a turn failed. Nothing of it was committed.
type turnError struct {
	owner owner
	err   error
	// hidden: a statement failed, but the handler's error does not say how.
	hidden bool
	// clean: the handler wants its event to wait and has sent nothing, so that what
	// ran before it can be committed.
	clean bool
}

func (e *turnError) Error() string { return e.err.Error() }
func (e *turnError) Unwrap() error { return e.err }

func (p *Processor) newTurn(w *worker, conn *pgx.Conn, lanes []*lane) *turn {
	return &turn{p: p, w: w, conn: conn, lanes: lanes, batch: &pgx.Batch{}, settings: settingsOf(conn), began: time.Now()}
}

// run runs the turn to its commit. On nil each plan's events are done; lanes
// that the turn had no time for are not among the plans. After an error the
// connection is out of any transaction, or closed.
func (t *turn) run(ctx context.Context) (err error) {
	defer func() {
		if err != nil && t.open && !t.conn.IsClosed() && !errors.Is(err, errGone) {
			t.rollback()
		}
	}()
	t.begin(0)
	for _, l := range t.lanes {
		n, err := t.runLane(ctx, l, 0)
		if err != nil {
			return err
		}
		if n > 0 {
			t.plans = append(t.plans, plan{l, 0, n})
		}
		if t.open && time.Since(t.began) > longTurn {
			break // likewise
		}
	}
	if len(t.plans) == 0 {
		if t.open {
			t.rollback()
		}
		return nil
	}
	t.advance(t.plans)
	if err := t.chain(ctx); err != nil {
		return err
	}
	t.reset()
	t.ahead = t.readOn(ctx)
	return t.flush(ctx)
}

// begin gathers the start of a transaction: lanes are locked before anything
// else is done. from is how many of their events the turn has run by then.
func (t *turn) begin(from int) {
	ids := make([]int64, len(t.lanes))
	cursors := make([]int64, len(t.lanes))
	versions := make([]int32, len(t.lanes))
	for i, l := range t.lanes {
		ids[i], cursors[i], versions[i] = l.id, l.cursor+int64(from), l.version
	}
	limit := t.p.limits(t.lanes)
	if n := len(t.batch.QueuedQueries); len(t.commits) > 0 {
		t.batch.QueuedQueries[n-1].SQL = commitAndBegin
	} else {
		t.gather(nobody, beginSQL[t.isolation])
	}
	t.claimed, t.controls = len(t.batch.QueuedQueries), false
	t.gather(nobody, t.p.sql.claim, t.p.id.Load(), ids, cursors, versions,
		limit.statement.Milliseconds(), limit.lock.Milliseconds(), limit.idle.Milliseconds())
}

func (t *turn) gather(o owner, sql string, args ...any) {
	t.batch.Queue(sql, args...)
	t.owners = append(t.owners, o)
}

// limits are the time-outs of a turn, in the database. Lanes that share a
// transaction wait for nothing for long: whoever makes them wait gets a
// transaction of its own.
type limits struct{ statement, lock, idle time.Duration }

func (p *Processor) limits(lanes []*lane) limits {
	longest := p.cfg.HandlerTimeout
	if p.longest > longest && len(lanes) == 1 {
		for i := range min(len(lanes[0].events), p.cfg.Batch) {
			if entry := p.entries[lanes[0].events[i].Type]; entry != nil {
				longest = max(longest, entry.Timeout)
			}
		}
	}
	l := limits{statement: longest, idle: longest + p.cfg.Lease}
	if len(lanes) > 1 {
		l.statement = min(l.statement, time.Second)
		l.lock = 100 * time.Millisecond
	}
	return l
}

// runLane runs or gathers a transaction's events of the lane, from one of them on,
// and answers how many.
func (t *turn) runLane(ctx context.Context, l *lane, from int) (int, error) {
	end := min(len(l.events), from+t.p.cfg.Batch)
	if l.singles > 0 || t.p.apart(l) {
		end = 1
	}
	if l.failed != nil {
		end = min(end, int(l.failed.position-l.cursor)-1)
	}
	end, err := t.p.fetch(ctx, t.conn, l, end)
	if err != nil {
		return 0, &turnError{owner: owner{l, -1}, err: err}
	}
	for i := from; i < end; {
		entry := t.p.entries[l.events[i].Type]
		if i > 0 && (t.p.breaker.isOpen(l.events[i].Type) || entry != nil && (entry.Isolation != t.isolation || entry.OwnTransaction)) {
			return i - from, nil // it waits, or has a turn of its own
		}
		if i-from >= fewEvents && !t.p.pace.known(l.events[i].Type) ||
			i > from && t.open && time.Since(t.began) > longRun {
			return i - from, nil // what is done is committed before others have to wait
		}
		switch {
		case entry == nil:
			l.fail(l.events[i].Position, fmt.Errorf("%w %q", ErrNoHandler, l.events[i].Type))
			return i - from, nil
		case entry.Form == handlers.Ignored:
			i++
		case entry.Form == handlers.Queued:
			if err := t.queue(ctx, entry, l, i); errors.Is(err, errGone) {
				return 0, err
			} else if err != nil {
				l.fail(l.events[i].Position, err)
				return i - from, nil
			}
			i++
		default:
			count := 1
			if entry.Form == handlers.Batched {
				count = t.p.sameEntry(l.events[i:end], entry)
			}
			if err := t.call(ctx, entry, l, i, count); err != nil {
				var cause *turnError
				if errors.As(err, &cause) && cause.clean {
					l.fail(l.events[i].Position, cause.err)
					return i - from, nil
				}
				return 0, err
			}
			i += count
		}
	}
	return end - from, nil
}

// sameEntry counts the first events that one call of a batched handler may have.
func (p *Processor) sameEntry(events []event, entry *handlers.Entry) int {
	n := 1
	for n < len(events) && p.entries[events[n].Type] == entry && (entry.Max == 0 || n < entry.Max) {
		n++
	}
	return n
}

// queue has a queued handler add its statements. If it fails, nothing of it
// stays.
func (t *turn) queue(ctx context.Context, entry *handlers.Entry, l *lane, i int) error {
	before := len(t.batch.QueuedQueries)
	t.w.enter(l, &l.events[i])
	messages := l.messages(i, 1)
	t.p.hooks.starts(messages)
	err := protect(func() error {
		return entry.Handle(ctx, &handlers.Call{Events: messages, Batch: t.batch})
	})
	if _, ok := t.w.leave(); !ok {
		return errGone
	}
	if err != nil {
		t.batch.QueuedQueries = t.batch.QueuedQueries[:before]
		return err
	}
	for _, q := range t.batch.QueuedQueries[before:] {
		t.owners = append(t.owners, owner{l, i})
		t.controls = t.controls || controls(q.SQL)
	}
	return nil
}

// call runs a handler that uses the transaction, on the events from i on.
func (t *turn) call(ctx context.Context, entry *handlers.Entry, l *lane, i, count int) error {
	if err := t.flush(ctx); err != nil {
		return err
	}
	tx := &laneTx{conn: t.conn}
	limit := t.p.limitOf(entry)
	limited, cancel := context.WithTimeoutCause(ctx, limit, &handlers.TimeoutError{Limit: limit})
	defer cancel()
	t.w.enter(l, &l.events[i])
	messages := l.messages(i, count)
	t.p.hooks.starts(messages)
	err := protect(func() error {
		return entry.Handle(limited, &handlers.Call{Events: messages, Tx: tx})
	})
	took, ok := t.w.leave()
	if !ok {
		return errGone
	}
	if took > slowCall {
		l.alone = aloneTurns
	}
	if limited.Err() != nil && ctx.Err() == nil {
		err = errors.Join(context.Cause(limited), err)
	}
	wrong := tx.verdict()
	if err == nil {
		err = wrong
	} else if errors.Is(wrong, errEnded) {
		err = errors.Join(wrong, err)
	}
	if err != nil {
		o := owner{l, i}
		if count > 1 && !waits(err) {
			o.index = -1 // one of them; which, shows when they run one by one
		}
		hidden := fault.State(err) == "" && t.conn.PgConn().TxStatus() == 'E'
		clean := waits(err) && wrong == nil && !tx.used
		return &turnError{owner: o, err: err, hidden: hidden, clean: clean}
	}
	return nil
}

// waits reports that the handler did not fail at an event, but wants to run later:
// the first of its events waits, and the others behind it.
func waits(err error) bool {
	return errors.Is(err, handlers.ErrPause) || errors.Is(err, handlers.ErrLater)
}

// limitOf is how long a call may take.
func (p *Processor) limitOf(entry *handlers.Entry) time.Duration {
	if entry.Timeout > 0 {
		return entry.Timeout
	}
	return p.cfg.HandlerTimeout
}

// protect turns a panic into an error.
func protect(f func() error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &handlers.PanicError{Value: v, Stack: debug.Stack()}
		}
	}()
	return f()
}

// messages gives events to a handler, their attempt counted.
func (l *lane) messages(i, count int) []*handlers.Message {
	messages := make([]*handlers.Message, count)
	for k := range messages {
		m := &l.events[i+k].Message
		m.Attempt = 1
		if i+k == 0 {
			m.Attempt = l.attempts + max(l.crashes, 1)
		}
		messages[k] = m
	}
	return messages
}

// advance gathers the end of a transaction, which completes the plans.
func (t *turn) advance(plans []plan) {
	if t.takes(plans) {
		t.take(plans)
	} else {
		t.complete(plans)
	}
	t.gather(nobody, commit)
	t.commits = append(t.commits, len(t.plans))
}

// complete gathers what moves the lanes' cursors on, behind the handlers.
func (t *turn) complete(plans []plan) {
	k := len(plans)
	ids, firsts, lasts := make([]int64, k), make([]int64, k), make([]int64, k)
	segments := make([]int32, k)
	unpark := []int64{}
	for i, p := range plans {
		l, cursor, last := p.edges()
		ids[i], firsts[i], lasts[i], segments[i] = l.id, cursor+1, last.Position, last.segment
		if l.parked && p.from == 0 {
			unpark = append(unpark, l.id)
		}
		if l.crashes > 0 {
			t.gather(owner{l, -1}, t.p.sql.endCareful, nil, l.id, l.cursor)
		}
	}
	t.gather(nobody, t.p.sql.advance, t.p.id.Load(), ids, firsts, lasts, segments, unpark, true)
}
