package inbox_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/inboxd/inboxd/inbox"
)

// Trap 4: while a transaction that stores is open, whoever stores to the same
// aggregate waits for it, so no position becomes visible before a lower one.
func TestTrap4PositionsBecomeVisibleInOrder(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, before, want string
		end                func(pgx.Tx, context.Context) error
	}{
		{"commit", "old", "1:old 2:first 3:second", pgx.Tx.Commit},
		{"rollback", "old", "1:old 2:second", pgx.Tx.Rollback},
		{"new aggregate, commit", "", "1:first 2:second", pgx.Tx.Commit},
		{"new aggregate, rollback", "", "1:second", pgx.Tx.Rollback},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			s := setup(t)
			if test.before != "" {
				s.put(event(test.before, "a"))
			}
			first, second := s.begin(), s.connect()
			_, err := inbox.NewStore(first, "").Put(t.Context(), []inbox.Event{event("first", "a")})
			must(t, err)
			done := s.putBeside(second, event("second", "a"))
			s.untilBlocked(second, first.Conn())
			if got := s.lane("a"); strings.Contains(got, "second") {
				t.Errorf("a reader sees %s while the first is open", got)
			}
			if got := s.put(event("elsewhere", "b")); got != "s" {
				t.Errorf("another aggregate: outcome %s", got)
			}
			must(t, test.end(first, t.Context()))
			must(t, soon(t, done).err)
			if got := s.lane("a"); got != test.want {
				t.Errorf("the lane is %s, want %s", got, test.want)
			}
		})
	}
}

// Trap 4 again, by chance: many writers of one lane, by Put and by Add, some of
// which roll back, and a reader that never finds a gap.
func TestTrap4ReadersSeeNoGap(t *testing.T) {
	t.Parallel()
	s := setup(t)
	const writers, rounds = 5, 30
	var writing sync.WaitGroup
	var ended atomic.Bool
	gaps := make(chan int, 1)
	reader := s.connect()
	go func() {
		found := 0
		for last := false; !last; {
			last = ended.Load()
			var missing int
			if err := reader.QueryRow(context.WithoutCancel(t.Context()),
				`select coalesce(max(position), 0) - count(*) from inboxd.inbox`).Scan(&missing); err != nil || missing != 0 {
				found++
			}
		}
		gaps <- found
	}()
	for w := range writers {
		writing.Go(func() {
			for i := range rounds {
				err := pgx.BeginFunc(t.Context(), s.pool, func(tx pgx.Tx) error {
					e := []inbox.Event{event(fmt.Sprintf("%d-%d", w, i), "a"), event(fmt.Sprintf("%d-%d'", w, i), "a")}
					var err error
					if w%2 == 0 {
						_, err = s.store.Add(t.Context(), tx, e...)
					} else {
						_, err = inbox.NewStore(tx, "").Put(t.Context(), e)
					}
					if err == nil && i%5 == 4 {
						err = errChanged
					}
					return err
				})
				if err != nil && !errors.Is(err, errChanged) {
					t.Errorf("writer %d: %v", w, err)
				}
			}
		})
	}
	writing.Wait()
	ended.Store(true)
	if got := soon(t, gaps); got != 0 {
		t.Errorf("a reader found a gap %d times", got)
	}
	s.whole(writers * rounds * 2 * 4 / 5)
}

var errChanged = errors.New("changed its mind")

// Trap 6: a handler that runs holds its lane's row, as claim() takes it, and
// that of its event's head. Nobody who stores waits for it.
func TestTrap6StoringWaitsForNoHandler(t *testing.T) {
	t.Parallel()
	s := setup(t)
	s.put(event("head", "a"), event("other", "b"))
	handler := s.begin()
	_, err := handler.Exec(t.Context(), `select inboxd.claim(1, array_agg(lane_id), array_agg(cursor), array_agg(version), 0, 0, 0) from inboxd.lanes`)
	must(t, err)
	_, err = handler.Exec(t.Context(), `select 1 from inboxd.lanes for update`)
	must(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	for i, aggregate := range []string{"a", "b", "new"} {
		if _, err := s.store.Put(ctx, []inbox.Event{event(fmt.Sprint("put-", i), aggregate)}); err != nil {
			t.Errorf("Put for %s: %v", aggregate, err)
		}
	}
	// A handler that adds an event and commits does not wait for another's lane.
	err = pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
		_, err := s.store.Add(ctx, tx, event("added", "a"))
		return err
	})
	if err != nil {
		t.Errorf("Add: %v", err)
	}
	must(t, handler.Rollback(t.Context()))
	s.whole(6)
}

// Trap 7: a unique index holds within a segment only. Opening one waits for
// those who store, and those who store afterwards see what they stored.
func TestTrap7GateBetweenSegments(t *testing.T) {
	t.Parallel()
	s := setup(t)
	s.put(event("old a", "a"), event("old b", "b"))
	storing, opener, late := s.begin(), s.connect(), s.connect()
	_, err := inbox.NewStore(storing, "").Put(t.Context(), []inbox.Event{event("x", "a")})
	must(t, err)
	opened := make(chan error, 1)
	go func() {
		_, err := opener.Exec(context.WithoutCancel(t.Context()), `select inboxd.open_segment()`)
		opened <- err
	}()
	s.untilBlockedOr(opener, storing.Conn(), opened)
	// For another aggregate: no row keeps it from storing, only the gate does.
	done := s.putBeside(late, event("x", "b"), event("y", "b"))
	s.untilBlockedOr(late, opener, nil)
	must(t, storing.Commit(t.Context()))
	must(t, soon(t, opened))
	if got := soon(t, done); got.err != nil || got.outcomes != "cs" {
		t.Errorf("outcomes %s, %v", got.outcomes, got.err)
	}
	s.whole(4)
	if got := one[string](t, s.pool, `select string_agg(event_id || ':' || segment, ' ' order by event_id) from inboxd.inbox where event_id in ('x', 'y')`); got != "x:1 y:2" {
		t.Errorf("stored as %s", got)
	}
}

// Trap 7: readers and long transactions do not hold up the opening of a
// segment, which would hold up everybody who stores.
func TestTrap7OpeningASegmentWaitsForNoReader(t *testing.T) {
	t.Parallel()
	s := setup(t)
	s.put(event("old", "a"))
	reader, handler := s.beginTx(pgx.TxOptions{IsoLevel: pgx.RepeatableRead}), s.begin()
	one[int](t, reader, `select count(*) from inboxd.inbox i join inboxd.runs using (lane_id)`)
	one[int](t, handler, `select count(*) from inboxd.load(array[1], 16, 1000)`)
	s.add(handler, event("added", "a"))
	s.openSegment()
	must(t, handler.Commit(t.Context()))
	must(t, reader.Rollback(t.Context()))
	if got := one[int](t, s.pool, `select segment from inboxd.inbox where event_id = 'added'`); got != 2 {
		t.Errorf("the event is in segment %d, want the new one", got)
	}
}

// Trap 7: the oldest segment is dropped whole. Its ids are forgotten with it,
// which is what the retention window means; positions go on.
func TestTrap7DroppingASegment(t *testing.T) {
	t.Parallel()
	s := setup(t)
	s.put(event("old", "a"))
	s.openSegment()
	s.put(event("newer", "a"))
	s.exec(`drop table inboxd.inbox_1, inboxd.runs_1`)
	s.exec(`delete from inboxd.segments where segment = 1`)
	s.openSegment()
	if got := s.put(event("newer", "a"), event("old", "a")); got != "ds" {
		t.Errorf("outcomes %s", got)
	}
	if got := s.lane("a"); got != "2:newer 3:old" {
		t.Errorf("the lane is %s", got)
	}
	if got := one[string](t, s.pool, `select string_agg(segment::text, ',' order by segment) from inboxd.segments`); got != "2,3" {
		t.Errorf("segments %s", got)
	}
}

// Every segment has the indexes of the first: those of inbox are parts of the whole
// table's, that of runs is each one's own. And a short way to be analyzed.
func TestSegmentsAreAlike(t *testing.T) {
	t.Parallel()
	s := setup(t)
	s.openSegment()
	for _, table := range []string{"inbox", "runs"} {
		if got := one[int](t, s.pool, `select count(*) from pg_partition_tree('inboxd.' || $1) where isleaf and level = 1`, table); got != 2 {
			t.Errorf("%s has %d partitions", table, got)
		}
		const of = `select string_agg(concat_ws(' ', replace(pg_get_indexdef(i.indexrelid), $1, ''), i.indisprimary,
				(select count(*) from pg_inherits h where h.inhrelid = i.indexrelid)), '; ' order by replace(pg_get_indexdef(i.indexrelid), $1, ''))
			from pg_index i where i.indisvalid and i.indrelid = ('inboxd.' || $1)::regclass`
		first, second := one[string](t, s.pool, of, table+"_1"), one[string](t, s.pool, of, table+"_2")
		want := "CREATE UNIQUE INDEX _key ON inboxd. USING btree (lane_id, generation, last_position) f 0"
		if table == "inbox" && strings.Count(first, " 1") == strings.Count(first, "CREATE") {
			want = first
		}
		if first != want || second != want {
			t.Errorf("%s: indexes of the segments: %s and %s", table, first, second)
		}
		const options = `select reloptions::text from pg_class where oid = ('inboxd.' || $1)::regclass`
		if one, two := one[string](t, s.pool, options, table+"_1"), one[string](t, s.pool, options, table+"_2"); one != two {
			t.Errorf("%s: settings %s and %s", table, one, two)
		}
		if n := one[int](t, s.pool, `select count(*) from pg_attribute
			where attrelid in (('inboxd.' || $1 || '_1')::regclass, ('inboxd.' || $1 || '_2')::regclass)
				and attnum > 0 and attstattarget is distinct from 10`, table); n != 0 {
			t.Errorf("%s: %d columns have a sample of another size", table, n)
		}
	}
}

// untilBlockedOr is untilBlocked that ends the test if the session got through.
func (s *stage) untilBlockedOr(waiting, blocker *pgx.Conn, through <-chan error) {
	s.t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(20 * time.Second); ; {
		if one[bool](s.t, s.pool, `select $2::int = any(pg_blocking_pids($1::int))`, pid(waiting), pid(blocker)) {
			return
		}
		select {
		case err := <-through:
			s.t.Fatalf("it waits for nobody: %v", err)
		case <-tick.C:
		}
		if time.Now().After(deadline) {
			s.t.Fatal("it waits for nobody")
		}
	}
}

// Trap 8: two sessions store the same events in opposite orders, over and over.
func TestTrap8OppositeOrders(t *testing.T) {
	t.Parallel()
	s := setup(t)
	const rounds = 30
	all := make([][]inbox.Event, rounds)
	for i := range all {
		all[i] = events(fmt.Sprint("r", i), 30, 15)
	}
	var wg sync.WaitGroup
	results := make([]string, 2)
	for session := range 2 {
		wg.Go(func() {
			for _, batch := range all {
				if session == 1 {
					batch = reversed(batch)
				}
				outcomes, err := s.store.Put(t.Context(), batch)
				if err != nil {
					t.Errorf("session %d: %v", session, err)
				}
				results[session] += letters(outcomes)
			}
		})
	}
	wg.Wait()
	s.whole(rounds * 30)
	if got := strings.Count(results[0]+results[1], "s"); got != rounds*30 {
		t.Errorf("%d events were answered as stored, want %d", got, rounds*30)
	}
}

// Batches take their aggregates in the same order, however their events are
// ordered: a session that waits for the second holds the first, and not the third.
func TestTrap8LocksAreTakenInOrder(t *testing.T) {
	t.Parallel()
	s := setup(t)
	s.put(event("1", "A"), event("2", "a"), event("3", "é"))
	holder := s.begin()
	_, err := holder.Exec(t.Context(), `select 1 from inboxd.aggregates where aggregate_id = 'a' for update`)
	must(t, err)
	put, add := s.connect(), s.begin()
	done := s.putBeside(put, event("4", "é"), event("5", "a"), event("6", "A"))
	s.untilBlocked(put, holder.Conn())
	const free = `select coalesce(string_agg(l.aggregate_id, ' '), '')
		from (select aggregate_id from inboxd.aggregates order by 1 for update skip locked) l`
	if got := one[string](t, s.pool, free); got != "é" {
		t.Errorf("free are %q, want the last alone", got)
	}
	s.add(add, event("7", "é"), event("8", "a"))
	committed := make(chan error, 1)
	go func() { committed <- add.Commit(context.WithoutCancel(t.Context())) }()
	s.untilBlocked(add.Conn(), put)
	if got := one[string](t, s.pool, free); got != "é" {
		t.Errorf("free are %q, want the last alone", got)
	}
	must(t, holder.Rollback(t.Context()))
	must(t, soon(t, done).err)
	must(t, soon(t, committed))
	s.whole(8)
}

// Trap 8: a deadlock with somebody who takes the rows in another order is run
// again, and nothing of it reaches the caller.
func TestTrap8DeadlockIsRunAgain(t *testing.T) {
	t.Parallel()
	s := setup(t)
	s.put(event("old a", "a"), event("old b", "b"), event("old c", "c"))
	const lock = `select 1 from inboxd.aggregates where aggregate_id = $1 for update`
	victim, gate, rival := s.connect(), s.begin(), s.begin()
	exec := func(db interface {
		Exec(context.Context, string, ...any) (pgconn.CommandTag, error)
	}, sql string, args ...any) {
		t.Helper()
		_, err := db.Exec(t.Context(), sql, args...)
		must(t, err)
	}
	exec(victim, `set deadlock_timeout = '10ms'`)
	exec(rival, `set local deadlock_timeout = '10min'`)
	exec(gate, lock, "b")
	exec(rival, lock, "c")
	done := s.putBeside(victim, event("new a", "a"), event("new b", "b"), event("new c", "c"))
	s.untilBlocked(victim, gate.Conn()) // it holds a, and waits for b
	locked := make(chan error, 1)
	go func() {
		_, err := rival.Exec(context.WithoutCancel(t.Context()), lock, "a")
		locked <- err
	}()
	s.untilBlocked(rival.Conn(), victim)
	deadlocks := one[int](t, s.pool, `select deadlocks from pg_stat_database where datname = current_database()`)
	must(t, gate.Rollback(t.Context())) // now it goes for c, which closes the circle
	must(t, soon(t, locked))
	must(t, rival.Rollback(t.Context()))
	if got := soon(t, done); got.err != nil || got.outcomes != "sss" {
		t.Errorf("outcomes %s, %v", got.outcomes, got.err)
	}
	s.whole(6)
	must(t, victim.Close(t.Context())) // it tells its statistics when it ends
	s.until(`select deadlocks > $1 from pg_stat_database where datname = current_database()`, deadlocks)
}

// failing is a database that answers with errors before it does its work.
type failing struct {
	inbox.DB
	errs  []error
	calls int
}

func (f *failing) SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults {
	f.calls++
	if len(f.errs) == 0 {
		return f.DB.SendBatch(ctx, b)
	}
	err := f.errs[0]
	f.errs = f.errs[1:]
	return failedBatch{err: err}
}

type failedBatch struct {
	pgx.BatchResults
	err error
}

func (f failedBatch) Close() error { return f.err }

func TestTrap8ConflictsAreRunAgain(t *testing.T) {
	t.Parallel()
	s := setup(t)
	state := func(code string) error { return &pgconn.PgError{Code: code} }
	for code, again := range map[string]bool{"40001": true, "40P01": true, "55P03": true, "23505": true,
		"23502": false, "22P05": false, "57P01": false, "53100": false, "42501": false} {
		db := &failing{DB: s.pool, errs: []error{state(code), state(code), state(code)}}
		outcomes, err := inbox.NewStore(db, "").Put(t.Context(), []inbox.Event{event(code, "a")})
		if again && (err != nil || letters(outcomes) != "s" || db.calls != 4) {
			t.Errorf("%s: %s after %d calls, %v; want it run again", code, letters(outcomes), db.calls, err)
		}
		var pgErr *pgconn.PgError
		if !again && (!errors.As(err, &pgErr) || pgErr.Code != code || db.calls != 1) {
			t.Errorf("%s: %v after %d calls; want the error at once", code, err, db.calls)
		}
	}
	s.whole(4)
}

// Trap 9: what text and jsonb refuse is either kept as bytes or sent to
// quarantine, and the records around it are stored.
func TestTrap9HostileBytesStopNothing(t *testing.T) {
	t.Parallel()
	s := setup(t)
	g, _ := s.ingester()
	hostile := []string{"\x00", "\xff", "\xed\xa0\x80", "\xc0\x80", "a\x00b", "\xf4\x90\x80\x80", `\u0000`, `\ud800`, "\u2028", "\ufffd", "\ufeff"}
	var batch []inbox.Record
	for i, h := range hostile {
		batch = append(batch,
			record(len(batch), fmt.Sprintf("good-%d a Paid x", i)),
			record(len(batch)+1, fmt.Sprintf("payload-%d a Paid %s", i, h)),
			record(len(batch)+2, fmt.Sprintf("id-%d%s a Paid x", i, h)),
			record(len(batch)+3, fmt.Sprintf("aggregate-%d %s Paid x", i, h)),
			record(len(batch)+4, fmt.Sprintf("type-%d a %s x", i, h)),
			record(len(batch)+5, fmt.Sprintf("refuse %s", h)),
			record(len(batch)+6, fmt.Sprintf("fail %s", h)),
			record(len(batch)+7, fmt.Sprintf("headers-%d a Paid x", i)))
		last := &batch[len(batch)-1]
		last.Headers = []inbox.Header{{Name: h, Value: []byte(h)}}
		last.Key = []byte(h)
	}
	must(t, g.Ingest(t.Context(), batch))
	const refused = 6 // of the hostile strings: no name can hold them
	n := len(hostile)
	want := inbox.Counts{Stored: int64(6*n - 3*refused), Quarantined: int64(2*n + 3*refused)}
	if got := g.Counts(); got != want {
		t.Errorf("counted %+v, want %+v", got, want)
	}
	s.whole(int(want.Stored))
	if got := one[int64](t, s.pool, `select count(*) from inboxd.quarantine`); got != want.Quarantined {
		t.Errorf("%d records in quarantine, want %d", got, want.Quarantined)
	}
	for _, r := range batch {
		kept := one[bool](t, s.pool, `select exists (select from inboxd.inbox where source_offset = $1)
			or exists (select from inboxd.quarantine where source_offset = $1 and value = $2)`, r.Source.Offset, r.Value)
		if !kept {
			t.Errorf("record %d, %q, is nowhere", r.Source.Offset, r.Value)
		}
	}
}
