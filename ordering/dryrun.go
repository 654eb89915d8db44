package ordering

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/inboxd/inboxd/handlers"
)

// Errors of DryRun about lanes whose head it could not run.
var (
	// ErrNoAggregate is returned for an aggregate of which no event was ever
	// stored.
	ErrNoAggregate = errors.New("no event of this aggregate was ever stored")
	// ErrPooler is returned when the pool leads to a connection pooler: what
	// keeps a dry run from taking effect is set in its session, which then would
	// be somebody else's.
	ErrPooler = errors.New("a connection pooler stands before the server, and a dry run needs a session of its own")
	// ErrNoHead is returned for a lane whose events are all processed or skipped.
	ErrNoHead = errors.New("the lane has no unprocessed event")
	// ErrBusy is returned for a lane that somebody has locked for longer than a
	// second: its handler runs, or an operator changes it.
	ErrBusy = errors.New("the lane's handler runs, or somebody is changing the lane")
)

// DryRunReport says how a lane's head fared in a transaction that was rolled
// back.
type DryRunReport struct {
	// Event is the head as its handler saw it: its payload is the edited one, if
	// there is one.
	Event handlers.Message
	// Outcome is what would become of the head now.
	Outcome DryRunOutcome
	// Err is why it would not be processed; nil: it would. Fingerprint groups
	// errors of one cause, as in the lanes.
	Err         error
	Fingerprint string
	// RetryAfter is about how long a head that fails, or wants to run later,
	// waits for its next attempt.
	RetryAfter time.Duration
	// Statements are those that the handler sent, in order.
	Statements []DryRunStatement
	// Request is what a handler would send to another system that said so (see
	// handlers.WithRequest), a webhook's for example; nothing was sent. Nil: the
	// handler itself ran.
	Request *handlers.Request
	// Took is the handler's time, statements included.
	Took time.Duration
}

// DryRunOutcome is what would become of a head.
type DryRunOutcome string

// The outcomes of a dry run.
const (
	// DryRunProcessed heads would be done.
	DryRunProcessed DryRunOutcome = "processed"
	// DryRunRequest heads would send a request, and what becomes of them its answer
	// would say.
	DryRunRequest DryRunOutcome = "request"
	// DryRunFailed heads would fail, and be tried again.
	DryRunFailed DryRunOutcome = "failed"
	// DryRunStuck heads would make their lane stuck.
	DryRunStuck DryRunOutcome = "stuck"
	// DryRunSkipped heads would be passed over by their handler.
	DryRunSkipped DryRunOutcome = "skipped"
	// DryRunPaused heads would have their event type paused.
	DryRunPaused DryRunOutcome = "paused"
	// DryRunLater heads would run later, as their handler wishes, which is no
	// failed attempt.
	DryRunLater DryRunOutcome = "later"
	// DryRunConflict heads met another transaction: they would run again, which
	// costs no attempt.
	DryRunConflict DryRunOutcome = "conflict"
)

// DryRunStatement is one statement that a handler sent.
type DryRunStatement struct {
	SQL string
	// Rows it changed, or answered.
	Rows int64
	// Took is nil for a statement of a batch that an On or OnBatch handler sent.
	Took *time.Duration
	// Err is how it failed; nil: it did not.
	Err error
}

// DryRun runs the head of an aggregate's lane in a transaction that is always
// rolled back, on a connection of its own, and says how it fared. Nothing is
// written, no attempt is counted, and the lane stays as it is, whatever its
// state; a head that is stuck runs as the first attempt of a retry. What a
// handler does outside its transaction really happens: calls of other services,
// sequences that move on. One that said what it sends (handlers.WithRequest) does
// not run: its request is shown.
//
// The lane's row is locked meanwhile, as in a turn, so that its events wait. It
// waits for a second for a lane that runs, and fails with ErrBusy then. The
// database's user needs the right to make temporary tables. The Processor need
// not run.
func (p *Processor) DryRun(ctx context.Context, aggregate string) (*DryRunReport, error) {
	d := &dryRun{p: p, rec: &recorder{}}
	report, err := d.all(ctx, aggregate)
	if err != nil {
		return nil, fmt.Errorf("dry run of the lane of %q: %w", aggregate, err)
	}
	return report, nil
}

func (d *dryRun) all(ctx context.Context, aggregate string) (*DryRunReport, error) {
	var err error
	if d.conn, err = d.connect(ctx); err != nil {
		return nil, err
	}
	defer d.close()
	l, err := d.open(ctx, aggregate)
	if err != nil {
		return nil, err
	}
	if len(l.events) == 0 && l.failed == nil {
		return nil, ErrNoHead
	}
	return d.run(ctx, l)
}

// run runs the lane's head and judges how it fared. The error is none of the
// handler's: an outage, or the end of ctx.
func (d *dryRun) run(ctx context.Context, l *lane) (*DryRunReport, error) {
	report := &DryRunReport{}
	var err error
	if l.failed != nil && len(l.events) == 0 { // there is no head where there should be one
		err = l.failed.err
	} else {
		report.Event = l.head().Message
		started := time.Now()
		err = d.runHead(ctx, l)
		report.Took = time.Since(started)
		report.Event.Attempt = l.messages(0, 1)[0].Attempt
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	report.Statements, report.Request = d.rec.all(), d.request
	if report.Outcome, report.RetryAfter, err = d.judge(l, err); report.Outcome == "" {
		return nil, err
	}
	if err == nil && report.Request != nil {
		report.Outcome = DryRunRequest
	}
	if report.Err = err; err != nil {
		report.Fingerprint = describe(err).fingerprint
	}
	return report, nil
}
