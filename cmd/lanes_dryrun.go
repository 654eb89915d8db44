package cmd

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/inboxd/inboxd/admin"
	"github.com/inboxd/inboxd/internal/fault"
	"github.com/inboxd/inboxd/internal/service"
	"github.com/inboxd/inboxd/ordering"
)

func newLanesDryRunCmd(a *app) *cobra.Command {
	var yes bool
	cmd := &cobra.Command{
		Use:   "dry-run AGGREGATE",
		Short: "Run the head of a lane, and roll it back",
		Long: "Run the head of a lane in a transaction that is always rolled back, and say how it fared: what would become\n" +
			"of it, the statements that its handler sent, the rows that they changed, and how long it took. Nothing is\n" +
			"written and no attempt is counted, whether the lane is stuck, paused, backing off or ready. It is locked\n" +
			"meanwhile, as if it ran.\n\n" +
			"What a handler in Go does outside its transaction really happens, such as a call of another service: it\n" +
			"takes a confirmation. Of sql handlers nothing stays but the numbers that a sequence gave. Of a webhook the\n" +
			"request is shown, secrets hidden, and nothing is sent.\n\n" +
			"The exit code is 0 if the head would pass or is a webhook's, 1 if not.",
		Args: exactArgs("AGGREGATE"),
		RunE: func(cmd *cobra.Command, args []string) error { return a.dryRun(cmd.Context(), args[0], yes) },
	}
	cmd.Flags().BoolVar(&yes, "yes", false, "do not ask")
	a.addOutputFlag(cmd)
	return cmd
}

func (a *app) dryRun(ctx context.Context, aggregate string, yes bool) error {
	db, err := a.openDirect(ctx)
	if err != nil {
		return err
	}
	whole := true
	defer func() { db.end(whole) }()
	lane, err := admin.New(db.pool, db.schema).Lane(ctx, aggregate)
	switch {
	case err != nil:
		return operationFailure(err)
	case lane.Head == nil:
		return refused("the lane of %q has nothing to run: every event of it was processed or skipped", aggregate)
	}
	inGo := a.runsGo(lane.Head.EventType)
	if err := a.registerFor(db); err != nil {
		return err
	}
	s, err := service.New(service.Options{
		Config: db.config, Pool: db.pool, Registry: a.reg, Log: slog.New(slog.DiscardHandler), LanesOnly: true,
	})
	if err != nil {
		return wrongUse("%w", err)
	}
	if inGo && !yes {
		a.say("The handler of %s is in Go: what it does outside its transaction, such as a call of another service, really happens.",
			printable(lane.Head.EventType))
		err := a.confirm(ctx, "run "+printable(lane.Head.EventID)+" and roll it back")
		var refusal *exitError
		if errors.As(err, &refusal) && refusal.hint != "" {
			return refusal.withHint("add --yes to do it")
		} else if err != nil {
			return err
		}
	}
	report, err := s.Processor.DryRun(ctx, aggregate)
	if err != nil {
		return dryRunFailure(aggregate, err)
	}
	return a.showDryRun(report, lane.Head)
}

func dryRunFailure(aggregate string, err error) error {
	switch {
	case errors.Is(err, ordering.ErrBusy):
		return refused("the lane of %q could not be locked within a second: its handler runs, or somebody is changing it", aggregate).
			withHint("try again when it is done: inboxd lanes show %s", shellWord(aggregate))
	case errors.Is(err, ordering.ErrNoHead):
		return refused("the lane of %q has nothing to run any more: its last event was processed meanwhile", aggregate)
	}
	if errors.Is(err, ordering.ErrPooler) {
		return refused("%w", err).withHint(directHint)
	}
	return databaseFailure(err)
}

// dryRunJSON is what a dry run found, in JSON; its fields are stable.
type dryRunJSON struct {
	AggregateID string             `json:"aggregate_id"`
	Event       *admin.Head        `json:"event"`
	Attempt     int                `json:"attempt"`
	Outcome     string             `json:"outcome"`
	Error       *dryRunError       `json:"error"`
	RetryAfter  *float64           `json:"retry_after_ms"`
	Took        float64            `json:"took_ms"`
	Statements  []dryRunStatements `json:"statements"`
	Request     *dryRunRequest     `json:"request"`
}

type dryRunError struct {
	Message     string  `json:"message"`
	Fingerprint string  `json:"fingerprint"`
	SQLState    *string `json:"sqlstate"`
}

type dryRunStatements struct {
	SQL   string   `json:"sql"`
	Rows  int64    `json:"rows"`
	Took  *float64 `json:"took_ms"`
	Error *string  `json:"error"`
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// dryRunValue takes that a head was edited from how it was seen before the run.
func dryRunValue(r *ordering.DryRunReport, seen *admin.Head) dryRunJSON {
	e := r.Event
	v := dryRunJSON{
		AggregateID: e.AggregateID, Attempt: e.Attempt, Outcome: string(r.Outcome), Took: milliseconds(r.Took),
		Event:      &admin.Head{EventID: e.ID, EventType: e.Type, Position: e.Position, ReceivedAt: e.ReceivedAt.UTC()},
		Statements: []dryRunStatements{}, Request: requestValue(r.Request),
	}
	if seen.Position == e.Position {
		v.Event.EditedAt = seen.EditedAt
	}
	if r.Err != nil {
		v.Error = &dryRunError{Message: r.Err.Error(), Fingerprint: r.Fingerprint}
		if state := fault.State(r.Err); state != "" {
			v.Error.SQLState = &state
		}
	}
	if r.RetryAfter > 0 {
		ms := milliseconds(r.RetryAfter)
		v.RetryAfter = &ms
	}
	for _, s := range r.Statements {
		line := dryRunStatements{SQL: s.SQL, Rows: s.Rows}
		if s.Took != nil {
			ms := milliseconds(*s.Took)
			line.Took = &ms
		}
		if s.Err != nil {
			text := s.Err.Error()
			line.Error = &text
		}
		v.Statements = append(v.Statements, line)
	}
	return v
}

// dryRunWords says what would become of the head.
func dryRunWords(r *ordering.DryRunReport) string {
	switch r.Outcome {
	case ordering.DryRunProcessed:
		return "it would be processed"
	case ordering.DryRunRequest:
		return "its webhook would send the request below; nothing was sent, so what is answered is not known"
	case ordering.DryRunSkipped:
		return "its handler would skip it"
	case ordering.DryRunLater:
		return "it would run later, in " + admin.Age(r.RetryAfter)
	case ordering.DryRunPaused:
		return "its event type would be paused: something that its handler depends on is down"
	case ordering.DryRunConflict:
		return "it met another transaction, and would run again"
	case ordering.DryRunStuck:
		return "it would fail, and its lane would be stuck"
	}
	return "it would fail, and be tried again in " + admin.Age(r.RetryAfter)
}

func (a *app) showDryRun(r *ordering.DryRunReport, seen *admin.Head) error {
	e, value := r.Event, dryRunValue(r, seen)
	head := e.Type + " " + e.ID + " at position " + cellText(e.Position)
	if value.Event.EditedAt != nil {
		head += " (edited)"
	}
	fields := []field{{"aggregate", e.AggregateID}, {"head", head},
		{"outcome", wrapped(dryRunWords(r), laneIndent)}}
	if r.Err != nil {
		fields = append(fields, field{"error", wrapped(value.Error.Message, laneIndent)})
		if value.Error.SQLState != nil {
			fields = append(fields, field{"sqlstate", *value.Error.SQLState})
		}
		fields = append(fields, field{"fingerprint", r.Fingerprint})
	}
	fields = append(fields, field{"took", r.Took.Round(10 * time.Microsecond).String()})
	err := a.show(value, fields, func(b *bytes.Buffer) {
		if r.Request != nil {
			writeRequest(b, r.Request)
		}
		if len(r.Statements) > 0 {
			section(b, "Statements")
			b.Write(tableOf(dryRunColumns, value.Statements, a.colourful(a.stdout)))
		}
	})
	if err != nil {
		return err
	}
	switch r.Outcome {
	case ordering.DryRunRequest:
		a.say("nothing was sent, and nothing was changed")
		return nil
	case ordering.DryRunProcessed, ordering.DryRunSkipped, ordering.DryRunLater:
		a.say("it was rolled back; nothing was changed")
		return nil
	}
	return failed("%s %s of %q would not be processed; it was rolled back, and nothing was changed", e.Type, e.ID, e.AggregateID)
}

var dryRunColumns = []column[dryRunStatements]{
	{head: "rows", cell: func(s dryRunStatements) any { return s.Rows }},
	{head: "ms", cell: func(s dryRunStatements) any { return s.Took }},
	{head: "statement", cell: func(s dryRunStatements) any { return strings.Join(strings.Fields(s.SQL), " ") }, flex: true},
	{head: "error", cell: func(s dryRunStatements) any {
		if s.Error == nil {
			return nil
		}
		return errorLine(*s.Error)
	}, flex: true},
}
