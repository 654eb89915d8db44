package inbox_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/inboxd/inboxd/inbox"
)

// The same ids from several sessions at once, in different order and in batches
// that overlap: each event once, and no error for anybody.
func TestConcurrentBatchesThatOverlap(t *testing.T) {
	t.Parallel()
	s := setup(t)
	const n, sessions, step = 400, 6, 40
	all := events("e", n, 13)
	var mu sync.Mutex
	var stored, others int
	var wg sync.WaitGroup
	for session := range sessions {
		wg.Go(func() {
			for from := 0; from < n; from += step / 2 {
				at := (from + session*n/sessions) % n
				batch := all[at:min(n, at+step)]
				if session%2 == 1 {
					batch = reversed(batch)
				}
				outcomes, err := s.store.Put(t.Context(), batch)
				if err != nil {
					t.Errorf("session %d: %v", session, err)
				}
				got := letters(outcomes)
				mu.Lock()
				stored += strings.Count(got, "s")
				others += strings.Count(got, "d")
				mu.Unlock()
				if strings.Contains(got, "c") {
					t.Errorf("session %d: outcomes %s", session, got)
				}
			}
		})
	}
	wg.Wait()
	s.whole(n)
	if stored != n || others == 0 {
		t.Errorf("%d events were answered as stored, want %d; %d as duplicates", stored, n, others)
	}
}

// The same ids for other aggregates in every session: whoever is first has
// stored it, for the others it is a conflict.
func TestConcurrentClaimsOfAnID(t *testing.T) {
	t.Parallel()
	s := setup(t)
	const n, sessions = 60, 4
	var wg sync.WaitGroup
	results := make([]string, sessions)
	for session := range sessions {
		wg.Go(func() {
			for i := range n {
				batch := []inbox.Event{event(fmt.Sprint("x", i), fmt.Sprint("agg-", session)), event(fmt.Sprint("x", (i+1)%n), fmt.Sprint("agg-", session+1))}
				if session%2 == 1 {
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
	s.whole(n)
	if got := strings.Count(strings.Join(results, ""), "s"); got != n {
		t.Errorf("%d events were answered as stored, want %d", got, n)
	}
}

// An event whose id another session is storing for another aggregate: it waits
// for the outcome of that and takes it into account.
func TestSameIDForTwoAggregatesAtOnce(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, want string
		end        func(pgx.Tx, context.Context) error
	}{
		{"commit", "cs", pgx.Tx.Commit},
		{"rollback", "ss", pgx.Tx.Rollback},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			s := setup(t)
			first, second := s.begin(), s.connect()
			_, err := inbox.NewStore(first, "").Put(t.Context(), []inbox.Event{event("x", "a")})
			must(t, err)
			done := s.putBeside(second, event("x", "b"), event("y", "b"))
			s.untilBlocked(second, first.Conn())
			must(t, test.end(first, t.Context()))
			if got := soon(t, done); got.err != nil || got.outcomes != test.want {
				t.Errorf("outcomes %s, want %s; %v", got.outcomes, test.want, got.err)
			}
			s.whole(2)
		})
	}
}

// One session opens segments while others store the same events over and over:
// no event is stored twice, although a unique index spans one segment only.
func TestSegmentsOpenedWhileStoring(t *testing.T) {
	t.Parallel()
	s := setup(t)
	const n, sessions, segments = 300, 4, 30
	all := events("e", n, 11)
	_, err := s.store.Put(t.Context(), all[:5]) // whatever the machine does, there are two segments
	must(t, err)
	s.openSegment()
	ctx, stop := context.WithCancel(t.Context())
	var storing, opening sync.WaitGroup
	opening.Go(func() {
		for i := 0; i < segments && ctx.Err() == nil; i++ {
			if _, err := s.pool.Exec(ctx, `select inboxd.open_segment()`); err != nil && ctx.Err() == nil {
				t.Errorf("open a segment: %v", err)
			}
		}
	})
	for session := range sessions {
		storing.Go(func() {
			for round := range 60 {
				at := (round*37 + session*61) % n
				// Other aggregates in other sessions: no row but the gate keeps them apart.
				batch := make([]inbox.Event, 0, 10)
				for _, e := range all[at:min(n, at+10)] {
					e.AggregateID = fmt.Sprintf("%s-%d", e.AggregateID, session)
					batch = append(batch, e)
				}
				if _, err := s.store.Put(ctx, batch); err != nil {
					t.Errorf("session %d: %v", session, err)
				}
			}
		})
	}
	storing.Wait()
	stop()
	opening.Wait()
	s.whole(one[int](t, s.pool, `select count(distinct event_id) from inboxd.inbox`))
}

func TestDuplicatesAndConflictsOfOlderSegments(t *testing.T) {
	t.Parallel()
	s := setup(t)
	for segment := 1; segment <= 4; segment++ {
		if segment > 1 {
			s.openSegment()
		}
		s.put(event(fmt.Sprint("in-", segment), "a"))
		for older := 1; older <= segment; older++ {
			id := fmt.Sprint("in-", older)
			changed := event(id, "a")
			changed.Payload = []byte("changed")
			if got := s.put(event(id, "a"), event(id, "b"), changed, event(id, "a")); got != "dccd" {
				t.Errorf("%s again in segment %d: outcomes %s", id, segment, got)
			}
			tx := s.begin()
			if got := s.add(tx, event(id, "a"), event(id, "b"), changed, event(id, "a")); got != "dccd" {
				t.Errorf("%s added in segment %d: outcomes %s", id, segment, got)
			}
			must(t, tx.Commit(t.Context()))
		}
	}
	s.whole(4)
	if got := s.lane("a"); got != "1:in-1 2:in-2 3:in-3 4:in-4" {
		t.Errorf("the lane is %s", got)
	}
	if got := one[string](t, s.pool, `select string_agg(distinct segment::text, ',') from inboxd.inbox`); got != "1,2,3,4" {
		t.Errorf("segments %s", got)
	}
}
