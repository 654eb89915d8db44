package ordering_test

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/inboxd/inboxd/handlers"
	"github.com/inboxd/inboxd/ordering"
)

// gate has the handler of one event wait until the test lets it go on.
type gate struct {
	event   string
	reached chan struct{}
	open    chan struct{}
	once    sync.Once
	err     error // what it answers then

	mu       sync.Mutex
	replays  []string
	payloads []string
}

func newGate(event string) *gate {
	return &gate{event: event, reached: make(chan struct{}), open: make(chan struct{})}
}

func (g *gate) registry() *handlers.Registry {
	reg := handlers.New()
	handlers.On(reg, "Paid", func(ctx context.Context, tx pgx.Tx, e handlers.Event[string]) error {
		first := false
		if e.ID == g.event {
			g.once.Do(func() { close(g.reached); first = true })
			<-g.open
		}
		if first && g.err != nil {
			return g.err
		}
		g.mu.Lock()
		g.payloads = append(g.payloads, e.Data)
		if e.Replay {
			g.replays = append(g.replays, e.ID)
		}
		g.mu.Unlock()
		return effect(ctx, tx, e.Message)
	})
	return reg
}

func single() ordering.Config {
	cfg := quick()
	cfg.UntilIdle = false
	cfg.Batch = 1
	return cfg
}

// request leaves a change while the handler runs, and lets it go on.
func (s *stage) request(action string, event any, from any) {
	s.t.Helper()
	s.exec(`select inboxd.request_change(1, $1, $2, $3, 'ada', 'because')`, action, event, from)
}

// A pause that was asked for while a handler ran comes after its event, and
// before the next.
func TestChangeComesAtTheBoundary(t *testing.T) {
	t.Parallel()
	for range 5 {
		s := setup(t)
		s.put("Paid", 1, 6)
		g := newGate("Paid-0-2")
		s.start(g.registry(), single())
		<-g.reached
		s.request("pause", nil, nil)
		close(g.open)
		s.until(`select state = 'paused' from inboxd.lanes`)
		if n := one[int](s, `select count(*) from effects`); n != 3 {
			t.Errorf("%d events ran, want the three up to the pause", n)
		}
		s.sound()
		s.exec(`select inboxd.change(1, 'resume', null, null, 'ada', null)`)
		s.until(`select count(*) = 6 from effects`)
		s.inOrder(6)
		s.sound()
	}
}

// The head that was to be skipped succeeded: the skip is refused, on record.
func TestSkipOfAHeadThatSucceeded(t *testing.T) {
	t.Parallel()
	s := setup(t)
	s.put("Paid", 1, 4)
	g := newGate("Paid-0-1")
	s.start(g.registry(), single())
	<-g.reached
	s.request("skip", "Paid-0-1", nil)
	close(g.open)
	s.until(`select exists (select from inboxd.audit where action = 'refused' and event_id = 'Paid-0-1'
		and detail = '{"action": "skip", "why": "moved"}')`)
	s.until(`select count(*) = 4 from effects`)
	s.sound()
}

// The head that was to be skipped failed: it is passed over, and its followers run.
func TestSkipOfAHeadThatFailed(t *testing.T) {
	t.Parallel()
	s := setup(t)
	s.put("Paid", 1, 4)
	g := newGate("Paid-0-1")
	g.err = handlers.Permanent(errors.New("no such account"))
	s.start(g.registry(), single())
	<-g.reached
	s.request("skip", "Paid-0-1", nil)
	close(g.open)
	s.until(`select count(*) = 3 from effects`)
	if !one[bool](s, `select skipped_at is not null from inboxd.events where event_id = 'Paid-0-1'`) {
		t.Error("the event does not show as skipped")
	}
	if got := one[string](s, `select actor || ': ' || reason from inboxd.audit where action = 'skip'`); got != one[string](s, `select session_user || '/ada: because'`) {
		t.Errorf("the audit says %q", got)
	}
	s.sound()
}

// A replay that was asked for while a handler ran: from there on, in order, once
// more, and the handlers are told.
func TestReplayAtTheBoundary(t *testing.T) {
	t.Parallel()
	s := setup(t)
	s.put("Paid", 1, 6)
	g := newGate("Paid-0-3")
	s.start(g.registry(), single())
	<-g.reached
	s.exec(`delete from effects where position >= 2`)
	s.request("replay", nil, 2)
	close(g.open)
	s.until(`select cursor = 6 from inboxd.lanes`)
	got := one[[]int64](s, `select array_agg(position order by n) from effects`)
	want := []int64{1, 4, 2, 3, 4, 5, 6}
	if len(got) != len(want) {
		t.Fatalf("ran %v, want %v", got, want)
	}
	for i := range want {
		if got[i] != want[i] {
			t.Fatalf("ran %v, want %v", got, want)
		}
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.replays) != 3 { // 2, 3 and 4; 5 and 6 run for the first time
		t.Errorf("replays were told for %v, want events 1 to 3", g.replays)
	}
}

// No worker has the lane: the heartbeat makes the change.
func TestChangeOfAnIdleLane(t *testing.T) {
	t.Parallel()
	s := setup(t)
	s.put("Paid", 1, 2)
	s.start(sqlRegistry(t, "Paid"), single())
	s.until(`select count(*) = 2 from effects`)
	s.request("pause", nil, nil)
	s.until(`select state = 'paused' and paused_reason = 'because' from inboxd.lanes`)
	s.until(`select not exists (select from inboxd.changes)`)
}

// A lane was read and then its head edited: what was read does not run.
func TestEditMeetsClaim(t *testing.T) {
	t.Parallel()
	s := setup(t)
	s.put("Paid", 1, 2)
	a := s.session(1)
	stale := a.load(1)
	s.exec(`select inboxd.edit(1, 1, 'patched', 'ada', 'a typo')`)
	a.begin()
	moved(t, a.claim(stale))
	a.rollback()
	g := newGate("")
	cfg := quick()
	s.run(g.registry(), cfg)
	if got := g.payloads; len(got) != 2 || got[0] != "patched" || got[1] != `{"n":1}` {
		t.Errorf("ran %q, want the patched payload first", got)
	}
	if why := one[string](s, `select inboxd.edit(1, 1, 'late', 'ada', 'a typo')`); why != "processed" {
		t.Errorf("an edit of a processed event answers %q", why)
	}
	if n := one[int](s, `select count(*) from inboxd.audit where action = 'edit' and event_id = 'Paid-0-0'`); n != 1 {
		t.Errorf("%d edits on record, want one", n)
	}
}

// Two who press at once: one wins, the other is told.
func TestChangeMeetsChange(t *testing.T) {
	t.Parallel()
	s := setup(t)
	s.put("Paid", 1, 2)
	reg := handlers.New()
	handlers.On(reg, "Paid", func(context.Context, pgx.Tx, handlers.Event[[]byte]) error {
		return handlers.Permanent(errors.New("no"))
	})
	s.run(reg, quick())
	a, b := s.session(1), s.session(2)
	a.begin()
	a.exec(`select inboxd.change(1, 'skip', 'Paid-0-0', null, 'ada', 'x')`)
	why := make(chan *string, 1)
	done := b.waiting(func() error {
		var answer *string
		err := b.conn.QueryRow(context.Background(), `select inboxd.change(1, 'skip', 'Paid-0-0', null, 'bob', 'x')`).Scan(&answer)
		why <- answer
		return err
	})
	a.commit()
	must(t, <-done)
	if got := <-why; got == nil || *got != "moved" {
		t.Errorf("the second is told %v, want moved", got)
	}
	if n := one[int](s, `select cursor from inboxd.lanes`); n != 1 {
		t.Errorf("the cursor is at %d, want 1", n)
	}
}
