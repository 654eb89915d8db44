package handlers_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/inboxd/inboxd/handlers"
)

func TestOutcomes(t *testing.T) {
	t.Parallel()
	cause := errors.New("cause")
	for _, tc := range []struct {
		err  error
		is   error
		want handlers.Outcome
		text string
	}{
		{nil, nil, handlers.Done, ""},
		{cause, cause, handlers.Failed, "cause"},
		{handlers.Permanent(cause), handlers.ErrPermanent, handlers.Stuck, "cause"},
		{handlers.Permanent(nil), handlers.ErrPermanent, handlers.Stuck, "permanent"},
		{handlers.Skip(cause), handlers.ErrSkip, handlers.Skipped, "cause"},
		{handlers.Pause(cause), handlers.ErrPause, handlers.Paused, "cause"},
		{handlers.Later(cause, time.Second), handlers.ErrLater, handlers.Postponed, "cause"},
		{handlers.Later(nil, time.Second), handlers.ErrLater, handlers.Postponed, "not now, but after 1s"},
		{handlers.RetryAfter(cause, time.Second), handlers.ErrRetryAfter, handlers.Retried, "cause"},
		{handlers.RetryAfter(nil, -1), handlers.ErrRetryAfter, handlers.Retried, "try again after 0s"},
		{errors.Join(handlers.Permanent(cause), handlers.Skip(cause)), handlers.ErrPermanent, handlers.Skipped, "cause\ncause"},
	} {
		wrapped := tc.err
		if tc.err != nil {
			wrapped = fmt.Errorf("%w", tc.err)
		}
		if got := handlers.OutcomeOf(wrapped); got != tc.want || !errors.Is(wrapped, tc.is) || text(wrapped) != tc.text {
			t.Errorf("%v is %s, %q", tc.err, got, text(wrapped))
		}
	}
	var later *handlers.LaterError
	var retry *handlers.RetryAfterError
	if !errors.As(handlers.Later(cause, time.Second), &later) || !errors.As(handlers.RetryAfter(cause, time.Hour), &retry) ||
		later.After != time.Second || retry.After != time.Hour || !errors.Is(later, cause) || errors.Is(later, handlers.ErrRetryAfter) {
		t.Errorf("%+v %+v", later, retry)
	}
}
