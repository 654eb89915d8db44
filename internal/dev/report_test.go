package dev

import (
	"context"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/inboxd/inboxd/inbox"
	"github.com/inboxd/inboxd/internal/config"
	"github.com/inboxd/inboxd/internal/pgtest"
	"github.com/inboxd/inboxd/migrations"
)

// shopWith stores three events of each of two aggregates as processed, and
// gives a sample that reports on them.
func shopWith(t *testing.T) (*pgxpool.Pool, *sample) {
	t.Helper()
	ctx := context.Background()
	url := pgtest.Database(t)
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(ctx)
	if _, _, err := migrations.Up(ctx, conn, "inboxd"); err != nil {
		t.Fatal(err)
	}
	pool := pgtest.Pool(t, url)
	var events []inbox.Event
	for _, aggregate := range []string{"a", "b"} {
		for i := range 3 {
			events = append(events, inbox.Event{ID: fmt.Sprintf("%s-%d", aggregate, i+1), AggregateID: aggregate, Type: "T"})
		}
	}
	if _, err := inbox.NewStore(pool, "inboxd").Put(ctx, events); err != nil {
		t.Fatal(err)
	}
	exec(t, pool, shopTables)
	exec(t, pool, `update inboxd.lanes set cursor = 3`)
	exec(t, pool, `insert into inboxd.runs (lane_id, last_position, first_position, at, generation, process_id, segment, kind)
		select lane_id, 3, 1, now(), 0, 1, segment, 'r' from inboxd.lanes`)
	exec(t, pool, `insert into shop.effects (aggregate_id, event_id, version)
		select aggregate_id, event_id, position from inboxd.inbox order by position, lane_id`)
	return pool, &sample{o: SampleOptions{Pool: pool, Config: config.Default()}}
}

func exec(t *testing.T, pool *pgxpool.Pool, sql string) {
	t.Helper()
	if _, err := pool.Exec(context.Background(), sql); err != nil {
		t.Fatal(err)
	}
}

// TestViolationsAreCounted breaks the effects on purpose.
func TestViolationsAreCounted(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		harm string
		want Violations
	}{
		"none":    {`select 1`, Violations{}},
		"doubled": {`insert into shop.effects (aggregate_id, event_id, version) values ('a', 'a-3', 3)`, Violations{Doubled: 1, Disordered: 1}},
		"swapped": {`update shop.effects set version = 5 - version where aggregate_id = 'a' and version > 1`, Violations{Disordered: 2}},
		"lost":    {`delete from shop.effects where event_id = 'b-3'`, Violations{Lost: 1}},
		"a gap":   {`delete from shop.effects where event_id = 'b-2'`, Violations{Lost: 1, Disordered: 1}},
		"made up": {`insert into shop.effects (aggregate_id, event_id, version) values ('a', 'a-4', 4)`, Violations{Lost: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pool, s := shopWith(t)
			exec(t, pool, tc.harm)
			var r Report
			if err := s.read(context.Background(), &r); err != nil {
				t.Fatal(err)
			}
			if r.Violations != tc.want || r.Processed != 6 {
				t.Errorf("%d processed, violations %+v, want %+v", r.Processed, r.Violations, tc.want)
			}
		})
	}
}

func TestIdleIsWhenNothingCanRun(t *testing.T) {
	t.Parallel()
	pool, s := shopWith(t)
	for _, tc := range []struct {
		change string
		want   bool
	}{
		{`select 1`, true},
		{`update inboxd.lanes set cursor = 2 where aggregate_id = 'a'`, false},
		{`update inboxd.lanes set state = 'backoff', next_attempt_at = now() + interval '1 hour' where aggregate_id = 'a'`, false},
		{`update inboxd.lanes set state = 'stuck' where aggregate_id = 'a'`, true},
	} {
		exec(t, pool, tc.change)
		if got, err := s.idle(context.Background()); err != nil || got != tc.want {
			t.Errorf("after %s: idle is %t (%v)", tc.change, got, err)
		}
	}
}
