package bench

import (
	"testing"

	"github.com/inboxd/inboxd/internal/pgtest"
)

// TestAuditFindsWhatIsWrong holds the audit to its purpose: events that are
// lost, doubled or out of order are seen in the accounts alone.
func TestAuditFindsWhatIsWrong(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name   string
		ran    []int
		stored int64
		wrong  bool
	}{
		{"in order", []int{1, 2, 3, 4}, 4, false},
		{"swapped", []int{1, 3, 2, 4}, 4, true},
		{"doubled", []int{1, 2, 2, 3}, 3, true},
		{"doubled later", []int{1, 2, 3, 2}, 3, true},
		{"lost in the middle", []int{1, 2, 4}, 4, true},
		{"lost at the end", []int{1, 2, 3}, 4, true},
		{"lost at the beginning", []int{2, 3, 4}, 4, true},
		{"one lost and one doubled", []int{1, 2, 2, 4}, 4, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			pool := pgtest.Pool(t, pgtest.Database(t))
			a := accounts{table: "accounts"}
			exec := func(sql string, args ...any) {
				t.Helper()
				if _, err := pool.Exec(t.Context(), a.sql(sql), args...); err != nil {
					t.Fatal(err)
				}
			}
			exec(accountsTable)
			exec(openAccounts, 2)
			for _, n := range tc.ran {
				exec(a.debit("$1", "$2"), accountID(0), n)
			}
			violations, err := a.audit(t.Context(), pool, tc.stored)
			if err != nil || (violations > 0) != tc.wrong {
				t.Errorf("%d violations, %v", violations, err)
			}
			again, err := a.audit(t.Context(), pool, 0)
			if err != nil || again != 0 {
				t.Errorf("%d violations are new to a second audit, %v", again, err)
			}
		})
	}
}

func TestBatchOfEventsIsAuditedToo(t *testing.T) {
	t.Parallel()
	pool := pgtest.Pool(t, pgtest.Database(t))
	a := accounts{table: "accounts"}
	if _, err := pool.Exec(t.Context(), a.sql(accountsTable+`; insert into {accounts} (account_id) values ('account-0')`)); err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		count, first, last, misses int
		wrong                      bool
	}{{3, 1, 3, 0, false}, {2, 4, 5, 0, false}, {2, 5, 6, 0, true}, {1, 8, 8, 0, true}, {3, 9, 11, 1, true}} {
		if _, err := pool.Exec(t.Context(), a.sql(debitAllSQL), accountID(0), step.count, step.first, step.last, step.misses); err != nil {
			t.Fatal(err)
		}
		violations, err := a.audit(t.Context(), pool, int64(step.count))
		if err != nil || (violations > 0) != step.wrong {
			t.Errorf("%+v: %d violations, %v", step, violations, err)
		}
	}
}
