package ordering_test

import (
	"context"
	"errors"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/inboxd/inboxd/handlers"
	"github.com/inboxd/inboxd/ordering"
)

// A handler that said what it sends does not run: its request is shown, of the
// payload that it would get.
func TestDryRunShowsTheRequest(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		err     error
		outcome ordering.DryRunOutcome
	}{
		"shown":   {nil, ordering.DryRunRequest},
		"fails":   {errors.New("no address"), ordering.DryRunFailed},
		"refuses": {handlers.Permanent(errors.New("no address")), ordering.DryRunStuck},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := rehearsal(t)
			s.exec(`begin; select inboxd.edit(lane_id, 1, 'patched', 'ada', 'x') from inboxd.lanes; commit`)
			reg := handlers.New()
			handlers.On(reg, "T", func(context.Context, pgx.Tx, handlers.Event[[]byte]) error {
				t.Error("the handler ran")
				return nil
			}, handlers.WithRequest(func(_ context.Context, e handlers.Event[[]byte]) (handlers.Request, error) {
				return handlers.Request{Method: "POST", URL: "https://h/p", Body: e.Data}, tc.err
			}))
			report, err := s.dryRun(reg, ordering.Config{})
			must(t, err)
			if report.Outcome != tc.outcome || !errors.Is(report.Err, tc.err) || (report.Request != nil) != (tc.err == nil) {
				t.Fatalf("%s: %v, %+v", report.Outcome, report.Err, report.Request)
			}
			if report.Request != nil && string(report.Request.Body) != "patched" {
				t.Errorf("%s", report.Request.Body)
			}
		})
	}
}
