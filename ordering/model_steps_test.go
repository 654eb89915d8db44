package ordering_test

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"
	"pgregory.net/rapid"
)

// retry is an operator's retry of a lane.
type retry struct{ Lane int }

func (r retry) do(t *rapid.T, w *world) {
	l := w.lanes[r.Lane]
	done, err := operatorRetry(w.conn, l.name)
	if err != nil {
		t.Fatal(err)
	}
	if done {
		l.release()
	} else if l.stuck {
		t.Fatalf("a stuck lane could not be retried")
	}
}

// operatorRetry locks the lane, looks whether there is anything to retry, and
// releases it.
func operatorRetry(db beginner, aggregate string) (done bool, err error) {
	ctx := context.Background()
	err = pgx.BeginFunc(ctx, db, func(tx pgx.Tx) error {
		var lane int64
		var state string
		err := tx.QueryRow(ctx, `select lane_id, state from inboxd.lanes where aggregate_id = $1 for update`, aggregate).Scan(&lane, &state)
		if errors.Is(err, pgx.ErrNoRows) || err == nil && state != "stuck" && state != "backoff" {
			return nil
		}
		if err == nil {
			_, err = tx.Exec(ctx, `select inboxd.release(array[$1::bigint])`, lane)
		}
		done = err == nil
		return err
	})
	return done, err
}

// skip is an operator's skip of the head of a stuck lane.
type skip struct{ Lane int }

func (s skip) do(t *rapid.T, w *world) {
	l := w.lanes[s.Lane]
	if !l.stuck {
		return
	}
	ctx := context.Background()
	err := pgx.BeginFunc(ctx, w.conn, func(tx pgx.Tx) error {
		var lane, cursor int64
		err := tx.QueryRow(ctx, `select lane_id, cursor from inboxd.lanes
			where aggregate_id = $1 and state = 'stuck' for update`, l.name).Scan(&lane, &cursor)
		if err == nil {
			_, err = tx.Exec(ctx, `select inboxd.skip(0, $1, $2, 'operator', 'of no use')`, lane, cursor)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	l.pass()
}

// crash is a process that dies in the middle of a run of all lanes up to one:
// it leaves its effects undone and its trace in the rows.
type crash struct{ Lane int }

func (c crash) do(t *rapid.T, w *world) {
	ctx := context.Background()
	victim, err := pgx.ConnectConfig(ctx, w.pool.Config().ConnConfig.Copy())
	if err != nil {
		t.Fatal(err)
	}
	defer victim.Close(ctx)
	for _, sql := range []string{`begin`,
		`select inboxd.claim(9, array_agg(lane_id), array_agg(cursor), array_agg(version), 0, 0, 0)
			from (select l.* from inboxd.lanes l join inboxd.aggregates a using (lane_id)
				where l.aggregate_id <= 'agg-` + string(rune('0'+c.Lane)) + `' and l.state = 'ready' and a.last_position > l.cursor) l`,
		`insert into effects (event_id) values ('never')`,
	} {
		if _, err := victim.Exec(ctx, sql); err != nil {
			t.Fatal(err)
		}
	}
	w.terminate(t, victim)
}

// terminate ends a session and waits until it is gone.
func (w *world) terminate(t *rapid.T, victim *pgx.Conn) {
	ask[bool](t, w, `select pg_terminate_backend($1, 10000)`, int(victim.PgConn().PID()))
}

// die is a process that died in a careful run: the attempt was counted, and
// nobody takes it back.
type die struct{ Lane int }

func (d die) do(t *rapid.T, w *world) {
	l := w.lanes[d.Lane]
	if !l.open() || l.attempts+l.crashes >= modelAttempts {
		return
	}
	used := ask[*int](t, w, `select (inboxd.begin_careful(9, lane_id, cursor, version, 16)).used from inboxd.lanes where aggregate_id = $1`, l.name)
	if used == nil {
		return // it backs off
	}
	l.crashes++
	l.events[l.cursor].crashed++
	if *used != l.attempts+l.crashes {
		t.Fatalf("the attempt is number %d, want %d", *used, l.attempts+l.crashes)
	}
}

// settle is a settler that comes by.
type settle struct{ Lane int }

func (s settle) do(t *rapid.T, w *world) {
	ask[bool](t, w, `select s is not null from inboxd.settle(array(select lane_id from inboxd.aggregates where aggregate_id >= $1)) s`,
		w.lanes[s.Lane].name)
}

// segment opens a new segment for what is stored from here on.
type segment struct{}

func (segment) do(t *rapid.T, w *world) {
	ask[int](t, w, `select inboxd.open_segment()`)
}
