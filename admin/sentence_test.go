package admin_test

import (
	"testing"
	"time"

	"github.com/inboxd/inboxd/admin"
)

func TestSentence(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)
	ago := func(d time.Duration) *time.Time { at := now.Add(-d); return &at }
	head := &admin.Head{EventID: "ev-17", EventType: "OrderPaid"}
	failure := &admin.Failure{Message: "check constraint \"amount\"\nwas violated"}
	ada, why := "shop/ada", "migration"
	for want, l := range map[string]admin.Lane{
		`stuck for 3h behind OrderPaid ev-17 (attempt 10): check constraint "amount"; 42 events wait behind it`: {State: admin.Stuck, Head: head, Attempts: 10, Pending: 43, Since: ago(3 * time.Hour), Error: failure},
		`stuck for 0s behind OrderPaid ev-17; 1 event waits behind it`:                                          {State: admin.Stuck, Head: head, Pending: 2, Since: ago(-time.Second)},
		`stuck for 2d behind an event that is not in the inbox`:                                                 {State: admin.Stuck, Pending: 1, Since: ago(50 * time.Hour)},
		`idle: every event was processed or skipped`:                                                            {State: admin.Idle},
		`ready: OrderPaid ev-17 is next, received 12m ago`:                                                      {State: admin.Ready, Head: head, Pending: 1, Since: ago(12 * time.Minute)},
		`running OrderPaid ev-17; 2 events wait behind it`:                                                      {State: admin.Running, Head: head, Pending: 3, Since: ago(0)},
		`backing off: OrderPaid ev-17 runs again in 12s, attempt 3 failed: check constraint "amount"`:           {State: admin.Backoff, Head: head, Pending: 1, Attempts: 3, NextAttemptAt: ago(-12 * time.Second), Error: failure},
		`backing off: OrderPaid ev-17 runs again now`:                                                           {State: admin.Backoff, Head: head, Pending: 1, NextAttemptAt: ago(time.Second)},
		`waiting for 1h20m for the next event of its sequence; 4 events wait behind it`:                         {State: admin.Waiting, Pending: 5, Since: ago(80 * time.Minute)},
		`paused for 5m by shop/ada: migration; 5 events wait`:                                                   {State: admin.Paused, Pending: 5, Since: ago(5 * time.Minute), PausedBy: &ada, PausedReason: &why},
		`paused for 5m; no event waits`:                                                                         {State: admin.Paused, Since: ago(5 * time.Minute)},
	} {
		l.AsOf = now
		equal(t, l.Sentence(), want)
	}
}
