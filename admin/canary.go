package admin

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

// Trial is what became of a lane that was retried before the others.
type Trial struct {
	Outcome TrialOutcome `json:"outcome"`
	// Error is how the head failed again; nil: it did not.
	Error *Failure `json:"error"`
}

// TrialOutcome says how a Trial ended.
type TrialOutcome string

// The outcomes of a Trial.
const (
	// TrialSucceeded: the head was processed.
	TrialSucceeded TrialOutcome = "succeeded"
	// TrialFailed: the head failed again, or its lane was paused.
	TrialFailed TrialOutcome = "failed"
	// TrialOpen: the head had not run when the wait ended.
	TrialOpen TrialOutcome = "open"
)

// CanaryError says that not all of the lanes that were retried first succeeded,
// so that the others were left alone. It is ErrRefused.
type CanaryError struct {
	// Waited is how long there was for them.
	Waited time.Duration
	// Lanes are those that were retried first, with their Trial, and those that
	// could not be.
	Lanes []Change
}

// maxTrials is how many lanes the words of a CanaryError name.
const maxTrials = 20

// Error says how many failed or did not run, and on a line each which, and how.
func (e *CanaryError) Error() string {
	var lines []string
	var tried, failed, open int
	for _, c := range e.Lanes {
		if c.Trial == nil {
			continue
		}
		tried++
		switch {
		case c.Trial.Outcome == TrialFailed && c.Trial.Error != nil:
			failed++
			lines = append(lines, fmt.Sprintf("%q: %s", c.AggregateID, shorten(firstLine(c.Trial.Error.Message), 200)))
		case c.Trial.Outcome == TrialFailed:
			failed++
			lines = append(lines, fmt.Sprintf("%q is paused", c.AggregateID))
		case c.Trial.Outcome == TrialOpen:
			open++
			lines = append(lines, fmt.Sprintf("%q has not run", c.AggregateID))
		}
	}
	if tried == 0 {
		return "none of the lanes that were to be retried first could be"
	}
	var said []string
	if failed > 0 {
		said = append(said, fmt.Sprintf("%d failed again", failed))
	}
	if open > 0 {
		said = append(said, fmt.Sprintf("%d had not run within %s", open, e.Waited))
	}
	if more := len(lines) - maxTrials; more > 0 {
		lines = append(lines[:maxTrials], fmt.Sprintf("and %d more", more))
	}
	return fmt.Sprintf("of %s retried first, %s; the others were left alone:\n  %s",
		count(int64(tried), "lane", "lanes"), strings.Join(said, " and "), strings.Join(lines, "\n  "))
}

// Is makes errors.Is(err, ErrRefused) true.
func (e *CanaryError) Is(target error) bool { return target == ErrRefused }

const (
	defaultCanaryWait = time.Minute
	trialEvery        = 100 * time.Millisecond
)

// canaries retries the first lanes and waits for them. It answers whether the
// others are to follow.
func (r *bulkRun) canaries(ctx context.Context, yield func(Change, error) bool) (bool, error) {
	var first []Change
	more := true
	for more && len(first) < r.Canary {
		var changes []Change
		var err error
		changes, more, err = r.next(ctx, min(bulkSize, r.Canary-len(first)))
		first = append(first, changes...)
		if err != nil {
			return false, err
		}
	}
	if len(first) == 0 {
		return false, nil
	}
	wait := r.CanaryWait
	if wait == 0 {
		wait = defaultCanaryWait
	}
	waiting, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	err := r.try(waiting, first)
	if waiting.Err() != nil && ctx.Err() == nil {
		err = nil // those without an outcome are open
	}
	for _, c := range first {
		if !yield(c, nil) {
			return false, errEnough
		}
	}
	switch {
	case ctx.Err() != nil:
		return false, ctx.Err()
	case err != nil:
		return false, err
	case !allSucceeded(first):
		return false, &CanaryError{wait, first}
	}
	return more, nil
}

func allSucceeded(changes []Change) bool {
	tried := false
	for _, c := range changes {
		if c.Trial != nil && c.Trial.Outcome != TrialSucceeded {
			return false
		}
		tried = tried || c.Trial != nil
	}
	return tried
}

// By the primary key. A lane that was put back to work is ready until its head
// is processed or fails.
const trialSQL = `select l.lane_id, l.cursor, l.state, l.error_message, l.error_fingerprint, l.error_at
from unnest($1::bigint[]) s(lane_id)
join {schema}.lanes l on l.lane_id = s.lane_id`

// try waits until each of the lanes that were put back to work has an outcome,
// and notes it.
func (r *bulkRun) try(ctx context.Context, changes []Change) error {
	var open []int64
	byID := map[int64]*Change{}
	for i := range changes {
		if c := &changes[i]; c.Status == Done {
			c.Trial = &Trial{Outcome: TrialOpen}
			open, byID[c.lane] = append(open, c.lane), c
		}
	}
	tick := time.NewTicker(trialEvery)
	defer tick.Stop()
	for len(open) > 0 {
		rows, err := collect(ctx, r.db, scanTrial, r.in(trialSQL), open)
		if err != nil {
			return fmt.Errorf("wait for the lanes that are retried first: %w", err)
		}
		open = open[:0]
		for _, t := range rows {
			if byID[t.lane].judge(t); byID[t.lane].Trial.Outcome == TrialOpen {
				open = append(open, t.lane)
			}
		}
		if len(open) == 0 {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
	return nil
}

type trialRow struct {
	lane, cursor         int64
	state                State
	message, fingerprint *string
	at                   *time.Time
}

func scanTrial(row pgx.CollectableRow) (trialRow, error) {
	var t trialRow
	err := row.Scan(&t.lane, &t.cursor, &t.state, &t.message, &t.fingerprint, &t.at)
	return t, err
}

func (c *Change) judge(t trialRow) {
	switch {
	case t.cursor > c.cursor:
		c.Trial.Outcome = TrialSucceeded
	case t.state != Ready:
		c.Trial.Outcome = TrialFailed
		if t.message != nil && t.fingerprint != nil && t.at != nil {
			c.Trial.Error = &Failure{Message: *t.message, Fingerprint: *t.fingerprint, At: t.at.UTC()}
		}
	}
}
