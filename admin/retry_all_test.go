package admin_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/inboxd/inboxd/admin"
)

// crowd is a database with 1200 stuck lanes of two causes.
func crowd(t *testing.T) *stage {
	t.Helper()
	s := setup(t)
	s.put("Paid", 1, names(1200)...)
	s.hold(admin.Stuck, 5, "x", "f1", names(1100)...)
	s.hold(admin.Stuck, 4, "y", "f2", names(1200)[1100:]...)
	return s
}

func TestRetryAllGoesInBoundedTransactions(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		f     admin.Filter
		total int
	}{{admin.Filter{Error: "f1"}, 1100}, {admin.Filter{State: admin.Stuck, OlderThan: 270 * time.Second}, 1100}, {admin.Filter{}, 1200}} {
		t.Run(fmt.Sprint(tc.f), func(t *testing.T) {
			t.Parallel()
			s := crowd(t)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			n, err := s.CountRetryable(ctx, tc.f)
			must(t, err)
			equal(t, n, tc.total)
			n = 0
			for _, err := range s.Retryable(ctx, tc.f) {
				must(t, err)
				n++
			}
			equal(t, n, tc.total)
			var seen []admin.Progress
			p, err := s.RetryAll(ctx, ada, tc.f, func(p admin.Progress) {
				seen = append(seen, p)
				// They fail again at once, and are not for this call any more.
				s.exec(`update inboxd.lanes set state = 'stuck', since = clock_timestamp() where state = 'ready'`)
				if p.Done > tc.total {
					cancel()
				}
			})
			must(t, err)
			equal(t, fmt.Sprint(p, seen), fmt.Sprintf("{%[1]d 0} [{500 0} {1000 0} {%[1]d 0}]", tc.total))
			equal(t, one[string](s, `select count(*) || ' ' || count(distinct aggregate_id) from inboxd.audit where action = 'retry'`),
				fmt.Sprint(tc.total, " ", tc.total))
			equal(t, one[int](s, `select count(*) from inboxd.aggregates where parked`), 1200-tc.total)
			equal(t, one[int](s, `select count(*) from inboxd.lanes where version = 0`), 1200-tc.total)
		})
	}
}

func TestRetryAllLeavesWhatIsLockedOrHasMoved(t *testing.T) {
	t.Parallel()
	s := crowd(t)
	unlock := s.lock("lanes", "order-3")
	defer unlock()
	p, err := s.RetryAll(t.Context(), ada, admin.Filter{State: admin.Stuck, Limit: 600}, nil)
	must(t, err)
	equal(t, p, "{599 1}")
	equal(t, one[int](s, `select count(*) from inboxd.lanes where state = 'stuck'`), 601)
}

func TestRetryAllCanBeInterruptedAndGoesOn(t *testing.T) {
	t.Parallel()
	s := crowd(t)
	ctx, cancel := context.WithCancel(t.Context())
	p, err := s.RetryAll(ctx, ada, admin.Filter{}, func(admin.Progress) { cancel() })
	if !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	equal(t, p, "{500 0}")
	p, err = s.RetryAll(t.Context(), ada, admin.Filter{}, nil)
	must(t, err)
	equal(t, p, "{700 0}")
	equal(t, one[int](s, `select count(*) from inboxd.audit`), 1200)
	p, err = s.RetryAll(t.Context(), ada, admin.Filter{}, nil)
	must(t, err)
	equal(t, p, "{0 0}")
}

// between is a database on which something happens just before a transaction
// begins.
type between struct {
	*pgxpool.Pool
	happens func()
}

func (b between) BeginTx(ctx context.Context, o pgx.TxOptions) (pgx.Tx, error) {
	b.happens()
	return b.Pool.BeginTx(ctx, o)
}

// What changed after the page was read is left as it is.
func TestRetryAllComparesWithWhatItSaw(t *testing.T) {
	t.Parallel()
	s := setup(t)
	s.put("Paid", 3, names(5)...)
	s.hold(admin.Stuck, 1, "x", "f", names(5)...)
	a := admin.New(between{s.pool, func() {
		s.exec(`update inboxd.lanes set version = 7 where aggregate_id = 'order-1'`)
		s.exec(`update inboxd.lanes set cursor = 1 where aggregate_id = 'order-2'`)
		s.exec(`update inboxd.lanes set state = 'paused' where aggregate_id = 'order-3'`)
	}}, "")
	p, err := a.RetryAll(t.Context(), ada, admin.Filter{State: admin.Stuck}, nil)
	must(t, err)
	equal(t, p, "{2 3}")
	equal(t, one[string](s, `select string_agg(aggregate_id, ' ' order by aggregate_id) from inboxd.audit`), "order-0 order-4")
}
