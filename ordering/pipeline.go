package ordering

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/inboxd/inboxd/internal/fault"
)

// flush sends what was gathered and reads the answers.
func (t *turn) flush(ctx context.Context) error {
	if len(t.batch.QueuedQueries) == 0 {
		return nil
	}
	batch, owners := t.batch, t.owners
	t.batch, t.owners = &pgx.Batch{}, nil
	t.open = true
	deadline := t.p.cfg.Lease + time.Duration(len(owners))*t.p.longest
	limited, cancel := context.WithTimeout(ctx, deadline)
	defer cancel()
	results, commits := t.conn.SendBatch(limited, batch), t.commits
	for i, q := range batch.QueuedQueries {
		var err error
		if q.Fn != nil {
			err = protect(func() error { return q.Fn(results) })
		} else {
			var tag pgconn.CommandTag
			tag, err = results.Exec()
			switch {
			case err != nil || owners[i] != nobody || q.SQL != commit && q.SQL != commitAndBegin:
			case tag.String() != "COMMIT":
				err = errSwallowed // a failed transaction answers a commit with a rollback
			case len(commits) > 0:
				t.committed, commits = commits[0], commits[1:]
			}
		}
		if err != nil {
			_ = results.Close() // repeats the error
			return &turnError{owner: blame(err, batch, owners, i), err: plain(err)}
		}
	}
	if err := results.Close(); err != nil {
		return &turnError{owner: owner{index: -1}, err: err}
	}
	t.open = t.conn.PgConn().TxStatus() != 'I'
	return nil
}

// blame finds whose statement failed. When statements are prepared, before any
// of them runs, the error comes with the first result and names the text.
func blame(err error, batch *pgx.Batch, owners []owner, i int) owner {
	var preparing pgx.ErrPreprocessingBatch
	if !errors.As(err, &preparing) {
		return owners[i]
	}
	found := owner{index: -1}
	for k, q := range batch.QueuedQueries {
		if q.SQL != preparing.SQL() {
			continue
		}
		if found.lane != nil && fault.State(err) == "" {
			return owner{index: -1} // one of several, its arguments cannot be encoded
		}
		if found.lane == nil {
			found = owners[k]
		}
	}
	return found
}

// plain is the error without pgx's words about batches.
func plain(err error) error {
	var preparing pgx.ErrPreprocessingBatch
	if errors.As(err, &preparing) && preparing.Unwrap() != nil {
		return preparing.Unwrap()
	}
	return err
}

// rollback ends the transaction without effect, and puts the session back: what
// a chain had committed before stays, and so do the settings that came with it. A
// connection on which that fails is closed: nothing may stay locked.
func (t *turn) rollback() {
	ctx, cancel := context.WithTimeout(context.Background(), t.p.cfg.Lease)
	defer cancel()
	sql := "rollback; " + unlockSession
	if t.committed > 0 {
		sql += "; " + strings.Join(resetSession, "; ")
	}
	_, err := t.conn.Exec(ctx, sql)
	if s := t.settings; err == nil && t.committed > 0 && len(s.names) > 0 {
		_, err = t.conn.Exec(ctx, restoreSettings, s.names, s.values)
	}
	if err != nil {
		_ = t.conn.Close(ctx)
	}
	t.open = false
}
