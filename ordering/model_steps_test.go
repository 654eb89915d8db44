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
	switch why := w.change(t, l, "retry", nil); {
	case l.paused && why != "paused" && l.known():
		t.Fatalf("retry of a paused lane: %q, want paused", why)
	case l.stuck && !l.paused && why != "":
		t.Fatalf("a stuck lane could not be retried: %s", why)
	case why == "":
		l.release()
	}
}

// change makes an operator's change, and answers why not.
func (w *world) change(t *rapid.T, l *modelLane, action string, from *int) string {
	return ask[string](t, w, `select coalesce((select coalesce(
		inboxd.change(lane_id, $2, null, $3, inboxd.who('operator'), 'of no use'), '')
		from inboxd.lanes where aggregate_id = $1), 'no lane')`, l.name, action, from)
}

// skip is an operator's skip of the head of a stuck lane.
type skip struct{ Lane int }

func (s skip) do(t *rapid.T, w *world) {
	l := w.lanes[s.Lane]
	if !l.stuck {
		return
	}
	if why := w.change(t, l, "skip", nil); why != "" {
		t.Fatalf("skip: %s", why)
	}
	l.pass()
}

// pause is an operator's pause of a lane, resume its end.
type pause struct{ Lane int }

func (s pause) do(t *rapid.T, w *world) {
	l := w.lanes[s.Lane]
	want := map[bool]string{true: "paused"}[l.paused]
	if why := w.change(t, l, "pause", nil); l.known() && why != want {
		t.Fatalf("pause: %q, want %q", why, want)
	}
	l.paused = l.known()
}

type resume struct{ Lane int }

func (s resume) do(t *rapid.T, w *world) {
	l := w.lanes[s.Lane]
	if why := w.change(t, l, "resume", nil); l.paused && why != "" {
		t.Fatalf("resume: %s", why)
	}
	l.paused = false
}

// replay is an operator's replay of a lane from an event on, after the effects
// from there on were taken back.
type replay struct{ Lane, From int }

func (s replay) do(t *rapid.T, w *world) {
	l := w.lanes[s.Lane]
	if s.From > l.cursor {
		return
	}
	if _, err := w.conn.Exec(context.Background(), `delete from effects where aggregate_id = $1 and position >= $2`, l.name, s.From); err != nil {
		t.Fatal(err)
	}
	if why := w.change(t, l, "replay", &s.From); why != "" {
		t.Fatalf("replay from %d of %d: %s", s.From, l.cursor, why)
	}
	for _, e := range l.events[s.From-1 : l.cursor] {
		e.skipped = false
	}
	l.cursor = s.From - 1
	l.release()
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

// operatorRetry retries a lane by name, and answers whether there was anything
// to retry.
func operatorRetry(db beginner, aggregate string) (done bool, err error) {
	ctx := context.Background()
	err = pgx.BeginFunc(ctx, db, func(tx pgx.Tx) error {
		rows, err := tx.Query(ctx, `select inboxd.change(lane_id, 'retry', null, null, 'operator', null) is null
			from inboxd.lanes where aggregate_id = $1`, aggregate)
		if err != nil {
			return err
		}
		done, err = pgx.CollectOneRow(rows, pgx.RowTo[bool])
		if errors.Is(err, pgx.ErrNoRows) {
			return nil
		}
		return err
	})
	return done, err
}
